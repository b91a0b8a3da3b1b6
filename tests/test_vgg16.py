"""VGG16 and the weights that a user brings for it."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from robustfl_bench.interfaces import ConfigError
from robustfl_bench.parts.models.vgg16 import Vgg16

SMALL = (8, 8)  # dense layers of eight units: the convolutions make the test slow enough


@pytest.fixture(scope="module")
def state() -> dict[str, Tensor]:
    """Weights as torchvision names them, made for 1000 classes and 7x7 cells."""
    generator = torch.Generator().manual_seed(0)
    module = Vgg16(SMALL)((3, 224, 224), 1000)
    return {name: 0.05 * torch.randn(value.shape, generator=generator) for name, value in module.state_dict().items()}


def saved(folder: Path, content: object) -> str:
    torch.save(content, folder / "weights.pth")
    return str(folder / "weights.pth")


def test_sizes() -> None:
    with torch.device("meta"):
        large, small = Vgg16()((3, 224, 224), 1000), Vgg16()((3, 32, 32), 100)
    assert sum(p.numel() for p in large.parameters()) == 138_357_544  # as published
    assert sum(p.numel() for p in small.parameters()) == 34_006_948
    assert sum(isinstance(m, nn.Conv2d) for m in small.modules()) == 13
    assert [name for name, _ in small.named_parameters()][-6::2] == [f"classifier.{i}.weight" for i in (0, 3, 6)]
    assert not any(isinstance(m, nn.Dropout) for m in small.modules())


def test_weights_of_imagenet_fit_small_images(tmp_path: Path, state: dict[str, Tensor]) -> None:
    module = Vgg16(SMALL, saved(tmp_path, state))((3, 32, 32), 100)
    x = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    features = module.get_submodule("features")(x)
    assert features.shape == (2, 512, 1, 1)
    repeated = features.expand(-1, -1, 7, 7).flatten(1)  # what pooling to 7x7 cells makes of one
    expected = nn.functional.linear(repeated, state["classifier.0.weight"], state["classifier.0.bias"])
    got = module.get_submodule("classifier")[0](features.flatten(1))  # type: ignore[index]
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)
    assert module(x).shape == (2, 100)
    own = module.state_dict()
    same = [name for name in state if own[name].shape == state[name].shape]
    assert len(same) == 29 and all(torch.equal(own[name], state[name]) for name in same)


def test_an_output_layer_of_the_right_size_is_taken(tmp_path: Path) -> None:
    first = Vgg16(SMALL)((3, 32, 32), 7)
    second = Vgg16(SMALL, saved(tmp_path, first.state_dict()))((3, 32, 32), 7)
    assert all(
        torch.equal(a, b) for a, b in zip(first.state_dict().values(), second.state_dict().values(), strict=True)
    )


class Trap:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return Path.touch, (Path("trap"),)  # type: ignore[return-value]


def test_other_files_are_refused(tmp_path: Path, state: dict[str, Tensor], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    wrong = state | {"features.2.weight": torch.zeros(64, 64, 5, 5)}
    (tmp_path / "text").write_text("not a file of weights")
    cases = [
        (saved, Trap(), "cannot be read as a file of tensors"),
        (saved, [1, 2], r"must hold tensors named features\.0\.weight, features\.0\.bias"),
        (saved, {name: value for name, value in state.items() if name != "features.0.bias"}, "must hold tensors named"),
        (saved, wrong, r"features\.2\.weight has the shape \(64, 64, 5, 5\), not \(64, 64, 3, 3\)"),
    ]
    for save, content, message in cases:
        with pytest.raises(ConfigError, match=message) as error:
            Vgg16(SMALL, save(tmp_path, content))((3, 32, 32), 100)
        assert "\n" not in str(error.value)
    assert not (tmp_path / "trap").exists(), "nothing in a file is run"
    with pytest.raises(ConfigError, match="cannot be read as a file of tensors"):
        Vgg16(SMALL, str(tmp_path / "text"))((3, 32, 32), 100)
    with pytest.raises(ConfigError, match=r"model\.weights: there is no file nowhere\.pth"):
        Vgg16(weights="nowhere.pth")
    with pytest.raises(ConfigError, match=r"dense must be"):
        Vgg16(dense=(0,))
    with pytest.raises(ConfigError, match="needs images of 32x32 or more"):
        Vgg16()((1, 28, 28), 10)
