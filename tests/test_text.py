"""Texts: tokens, vocabulary, word vectors, AG News and its model; the real files where ROBUSTFL_DATA has them."""

import csv
import gzip
import hashlib
import io
import lzma
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from robustfl_bench.interfaces import ConfigError, Data, DataError, Dataset
from robustfl_bench.numerics.network.network import Network
from robustfl_bench.numerics.network.samples import Batch
from robustfl_bench.parts import datasets
from robustfl_bench.parts.datasets import ag_news, text, word_vectors
from robustfl_bench.parts.datasets.ag_news import AgNews
from robustfl_bench.parts.datasets.files import File, Layout
from robustfl_bench.parts.models.gru import Gru
from robustfl_bench.read.runs.values import TEST_SAMPLES

RNG = np.random.Generator(np.random.Philox(key=1))


# ---- tokens


def test_padding_stands_behind_texts_alone() -> None:
    length, y = AgNews().input_shape[0], torch.zeros(3, dtype=torch.int64)
    x = torch.ones(3, length, dtype=torch.int32)
    x[0, 5:] = x[1] = 0
    datasets._check(Data(x, y, x, y, "own"), AgNews())
    wrong = x.clone()
    wrong[2, 3] = 0
    with pytest.raises(DataError, match="ag_news: some test texts have 0, which is padding, before a word"):
        datasets._check(Data(x, y, wrong, y, "own"), AgNews())


def test_tokens() -> None:
    assert text.tokenize('Oil, "up" 5.2%: <br />Iraq\'s (AP) pumps; now?!') == (
        ["oil", ",", "up", "5", ".", "2%", "iraq", "'", "s", "(", "ap", ")", "pumps", "now", "?", "!"]
    )
    assert text.tokenize("already split ' s , done .") == ["already", "split", "'", "s", ",", "done", "."]
    assert text.tokenize(" \t") == []


def test_vocabulary_is_by_frequency_then_spelling() -> None:
    texts = [["b", "a", "c"], ["a", "b", "d"], ["c", "e", "a"]]
    assert text.vocabulary(texts, 1) == {"a": 2, "b": 3, "c": 4, "d": 5, "e": 6}
    ids = text.vocabulary(texts, 2)
    assert ids == {"a": 2, "b": 3, "c": 4}
    rows = text.encode([*texts, []], ids)
    assert [row.tolist() for row in rows] == [[3, 2, 4], [2, 3, 1], [4, 1, 2], []]
    assert text.pad(rows, 2).tolist() == [[3, 2], [2, 3], [4, 1], [0, 0]]
    assert text.pad(rows, 4).tolist() == [[3, 2, 4, 0], [2, 3, 1, 0], [4, 1, 2, 0], [0, 0, 0, 0]]


# ---- word vectors


def corpus(texts: int = 60, words: int = 30) -> list[np.ndarray]:
    """Texts whose words come in two groups that do not mix, with some unknown words, and one empty text."""
    rng = np.random.Generator(np.random.Philox(key=3))
    rows = [2 + 2 * rng.zipf(1.6, rng.integers(1, 25)).clip(max=words // 2) - rng.integers(1, 3) for _ in range(texts)]
    return [np.empty(0, np.int32), *(np.where(rng.random(len(row)) < 0.1, 1, row).astype(np.int32) for row in rows)]


def slow_information(rows: list[np.ndarray], num_ids: int) -> np.ndarray:
    """Positive pointwise mutual information, pair by pair."""
    counts = np.zeros((num_ids, num_ids))
    for row in rows:
        for i, word in enumerate(row):
            for j, context in enumerate(row):
                if 0 < abs(i - j) <= 5 and word >= 2 and context >= 2:
                    counts[word, context] += 1 / abs(i - j)
    information = np.zeros_like(counts)
    context_weight = counts.sum(axis=0) ** 0.75
    for word, context in zip(*counts.nonzero(), strict=True):
        expected = counts[word].sum() * context_weight[context] / context_weight.sum()
        information[word, context] = max(np.log(counts[word, context] / expected), 0)
    return information


def test_vectors_are_the_factors_of_the_mutual_information() -> None:
    rows, num_ids, dim = corpus(), 33, 4
    vectors = word_vectors.from_texts(rows, num_ids, dim)
    assert vectors.shape == (num_ids, dim) and vectors.dtype == np.float32
    assert not vectors[:2].any()
    assert vectors[2:].std() == pytest.approx(0.4, rel=1e-3)
    u, s, _ = np.linalg.svd(slow_information(rows, num_ids))
    expected = u[:, :dim] * np.sqrt(s[:dim])  # signs are open, and with them the scale
    products, expected_products = vectors @ vectors.T, expected @ expected.T
    expected_products *= products.trace() / expected_products.trace()
    np.testing.assert_allclose(products, expected_products, atol=1e-4)
    words = [word for word in range(2, num_ids) if np.abs(vectors[word]).max() > 0.3]
    closeness = vectors[words] @ vectors[words].T
    same = np.equal.outer(np.array(words) % 2, np.array(words) % 2)
    assert closeness[same].mean() > 5 * abs(closeness[~same].mean())


def test_vectors_are_the_same_every_time() -> None:
    assert word_vectors.from_texts(corpus(), 33, 4).tobytes() == word_vectors.from_texts(corpus(), 33, 4).tobytes()


def test_too_many_dimensions() -> None:
    with pytest.raises(ConfigError, match="embedding_dim must be below the 33 words of the vocabulary, got 33"):
        word_vectors.from_texts(corpus(), 33, 33)


def test_vectors_are_kept_and_made_again_when_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    original = word_vectors.from_texts

    def counting(rows: list[np.ndarray], num_ids: int, dim: int) -> np.ndarray:
        made.append(dim)
        return original(rows, num_ids, dim)

    monkeypatch.setattr(word_vectors, "from_texts", counting)

    def get(dim: int = 4, texts: int = 60) -> np.ndarray:
        return word_vectors.cached_from_texts(corpus(texts), 33, dim, tmp_path / "cache")

    first = get()
    assert get().tobytes() == first.tobytes() and made == [4]
    (path,) = (tmp_path / "cache").iterdir()
    whole = path.read_bytes()
    for damaged in (b"", whole[:100], whole[: len(whole) // 2] + b"x" + whole[len(whole) // 2 + 1 :]):
        made.clear()
        path.write_bytes(damaged)
        assert get().tobytes() == first.tobytes() and made == [4]
        assert path.read_bytes() == whole
    made.clear()
    get(dim=3)
    get(texts=61)
    assert made == [3, 4] and len(list((tmp_path / "cache").iterdir())) == 3


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    vectors = word_vectors.cached_from_texts(corpus(), 33, 4, tmp_path / "file" / "cache")
    assert vectors.tobytes() == word_vectors.from_texts(corpus(), 33, 4).tobytes()


def test_vectors_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "glove.txt"
    path.write_text("the 1 2 3\nb 0.5 -0.25 1e-2\n. 7 8 9\n", encoding="utf-8")
    vectors = word_vectors.read_file(path, {".": 2, "a": 3, "b": 4}, 3)
    assert vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors, np.float32([[0] * 3, [0] * 3, [7, 8, 9], [0] * 3, [0.5, -0.25, 0.01]]))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"b 1 2\n", "line 1 has 2 numbers, expected 3 finite ones; give the file's dimension as "),
        (b"x 1 2 3\nb 1 2 nan\n", "line 2 has 3 numbers, expected 3 finite"),
        (b"b 1 two 3\n", "line 1 is not a word and 3 numbers"),
        (b"\x00\xff\xfe binary", "has a vector for none of the 1 words"),
        (None, "word vectors cannot be read .No such file or directory.; see dataset.embedding_file"),
    ],
)
def test_a_bad_file_of_vectors(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "glove.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=f"^{path}: {message}") as caught:
        word_vectors.read_file(path, {"b": 2}, 3)
    assert "\n" not in str(caught.value)


# ---- AG News: a tiny one with its own checksums

WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"]


def csv_bytes(rows: list[tuple[str, str, str]]) -> bytes:
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return out.getvalue().encode()


TRAIN = csv_bytes([(str(1 + i % 4), " ".join(RNG.choice(WORDS, 3)), 'Said "so", twice.') for i in range(40)])
TEST = csv_bytes([("4", "Alpha rare", "beta"), ("1", "", ""), ("2", "said, so", "so said. so")])
PACK: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A data folder with a tiny AG News, which the data set then takes for the official one; a cache of its own."""
    contents = {"train.csv": TRAIN, "test.csv": TEST}
    files = tuple(
        File(name, {f"sha256:{hashlib.sha256(content).hexdigest()}": "official"}) for name, content in contents.items()
    )
    layouts = tuple(Layout(layout.path, files) for layout in AgNews.source.layouts)
    monkeypatch.setattr(AgNews, "source", replace(AgNews.source, layouts=layouts))
    monkeypatch.setattr(ag_news, "cache_folder", lambda: tmp_path / "cache")
    return tmp_path / "data"


def write(folder: Path, suffix: str = "") -> None:
    folder.mkdir(parents=True)
    (folder / f"train.csv{suffix}").write_bytes(PACK[suffix](TRAIN))
    (folder / f"test.csv{suffix}").write_bytes(PACK[suffix](TEST))


@pytest.mark.parametrize("place", ["ag_news", "ag_news_csv", "."])
@pytest.mark.parametrize("suffix", PACK)
def test_ag_news_in_every_place_and_packing(tiny: Path, place: str, suffix: str) -> None:
    write(tiny / place, suffix)
    dataset = AgNews(length=6, embedding_dim=3)
    assert isinstance(dataset, Dataset) and dataset.input_shape == (6,)
    data = dataset.load(tiny)
    assert data.variant == "official"
    assert data.train_x.shape == (40, 6) and data.test_x.shape == (3, 6)
    assert data.train_x.dtype == torch.int32 and data.train_y.dtype == torch.int64
    assert data.train_y.tolist() == [i % 4 for i in range(40)] and data.test_y.tolist() == [3, 0, 1]
    assert data.vectors is not None and data.vectors.shape == (2 + 5 + 8, 3)  # all words come five times or more
    comma, dot, said, so = 2, 3, 4, 5  # by frequency, then spelling
    assert data.test_x[1:].tolist() == [[0] * 6, [said, comma, so, so, said, dot]]
    alpha, rare, beta = data.test_x[0, :3].tolist()
    assert rare == text.UNKNOWN and min(alpha, beta) > 6 and data.test_x[0, 3:].tolist() == [0, 0, 0]


def test_ag_news_with_a_file_of_vectors(tiny: Path) -> None:
    write(tiny / "ag_news")
    (tiny / "glove.txt").write_text("said 1 2\n, 3 4\n")
    for name in ("glove.txt", str(tiny / "glove.txt")):
        data = AgNews(embedding_file=name, embedding_dim=2).load(tiny)
        assert data.vectors is not None and data.vectors[2].tolist() == [3, 4] and data.vectors[4].tolist() == [1, 2]
    with pytest.raises(DataError, match="give the file's dimension as dataset"):
        AgNews(embedding_file="glove.txt").load(tiny)


def test_rare_words_are_unknown(tiny: Path) -> None:
    write(tiny / "ag_news")
    everything = AgNews(embedding_dim=2).load(tiny)
    frequent = AgNews(embedding_dim=2, min_frequency=40).load(tiny)
    assert frequent.vectors is not None and len(frequent.vectors) == 2 + 5
    expected = torch.where(everything.train_x > 6, text.UNKNOWN, everything.train_x)
    assert torch.equal(frequent.train_x, expected)


@pytest.mark.parametrize("field", ["min_frequency", "length", "embedding_dim"])
def test_options_have_ranges(field: str) -> None:
    with pytest.raises(ConfigError, match=f"{field} must be >= 1, got 0"):
        AgNews(**{field: 0})


# ---- the model


def texts(n: int = 20, length: int = 9, words: int = 12) -> Tensor:
    """Token ids of texts of all lengths from 0 to ``length``."""
    tokens = torch.from_numpy(RNG.integers(1, words, (n, length)).astype(np.int32))
    tokens[torch.arange(length) >= torch.arange(n)[:, None] % (length + 1)] = 0
    return tokens[torch.from_numpy(RNG.permutation(n))]


def vectors(words: int = 12, dim: int = 5) -> Tensor:
    table = torch.from_numpy(RNG.standard_normal((words, dim)).astype(np.float32))
    table[0] = 0
    return table


def by_pytorch(module: torch.nn.Module, tokens: Tensor, pooling: str) -> Tensor:
    """The same network with PyTorch's own GRU, one text at a time; an empty text is one padding token."""
    logits = []
    for row in tokens:
        words = row[: max(1, int((row != 0).sum()))]
        states, _ = module.gru(functional.embedding(words, module.table))
        logits.append(module.output(states.mean(dim=0) if pooling == "mean" else states.amax(dim=0)))
    return torch.stack(logits)


@pytest.mark.parametrize("pooling", ["mean", "max"])
@pytest.mark.parametrize("embedding", ["frozen", "trained", "random"])
def test_gru_is_pytorchs(pooling: str, embedding: str) -> None:
    tokens, labels = texts(), torch.from_numpy(RNG.integers(0, 3, 20))
    module = Gru(4, pooling, embedding)((9,), 3, vectors()).double()
    logits = module(tokens)
    expected = by_pytorch(module, tokens, pooling)
    torch.testing.assert_close(logits, expected)
    parameters = list(module.parameters())
    assert len(parameters) == (6 if embedding == "frozen" else 7)
    ours, theirs = (
        torch.autograd.grad(functional.cross_entropy(out, labels), parameters) for out in (logits, expected)
    )
    if embedding != "frozen":
        assert not ours[0][0].any()  # padding is no word
        theirs[0][0] = 0
    torch.testing.assert_close(ours, theirs)


def test_gru_of_the_paper_has_12996_parameters() -> None:
    network = Network(Gru(), (64,), 4, 0, torch.zeros(30_333, 100))
    assert network.dim == 12_996


def test_a_text_counts_the_same_in_any_company() -> None:
    module = Gru(4)((9,), 3, vectors())
    tokens = texts()
    together = module(tokens)
    torch.testing.assert_close(together, torch.cat([module(row[None]) for row in tokens]))
    longer = torch.cat([tokens, torch.zeros(20, 30, dtype=torch.int32)], dim=1)
    torch.testing.assert_close(module(longer), together)


@pytest.mark.parametrize("embedding", ["frozen", "trained"])
def test_gradients_and_losses_of_many(embedding: str) -> None:
    network = Network(Gru(4, embedding=embedding), (9,), 3, 1, vectors())
    tokens, labels, sizes = texts(), torch.from_numpy(RNG.integers(0, 3, 20)), (7, 1, 12)
    out = torch.empty(3, network.dim)
    losses = network.gradients(network.initial, Batch(tokens, labels, sizes), out)
    for row, x, y, loss in zip(out, torch.split(tokens, sizes), torch.split(labels, sizes), losses, strict=True):
        torch.testing.assert_close(row, network.gradient(network.initial, x, y))
        assert float(loss) == pytest.approx(network.evaluate(network.initial, x, y)[0], rel=1e-5)
    stack = network.initial + 0.1 * torch.randn(5, network.dim, generator=torch.Generator().manual_seed(0))
    expected = [network.evaluate(params, tokens, labels)[0] for params in stack]
    torch.testing.assert_close(network.losses(stack, tokens, labels).float(), torch.tensor(expected))


def test_random_vectors_come_from_the_seed_and_frozen_ones_are_no_parameters() -> None:
    table = vectors()
    first, again, other = (Network(Gru(4, embedding="random"), (9,), 3, seed, table).initial for seed in (1, 1, 2))
    assert torch.equal(first, again) and not torch.equal(first, other)
    trained = Network(Gru(4, embedding="trained"), (9,), 3, 1, table)
    assert torch.equal(trained.initial[: table.numel()].view_as(table), table)
    assert trained.dim == Network(Gru(4), (9,), 3, 1, table).dim + table.numel()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hidden": 0}, "hidden must be >= 1, got 0"),
        ({"pooling": "sum"}, "pooling must be one of mean, max, got 'sum'"),
        ({"embedding": "glove"}, "embedding must be one of frozen, trained, random, got 'glove'"),
    ],
)
def test_bad_models(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Gru(**options)  # type: ignore[arg-type]


# ---- the real files


@pytest.fixture(scope="module")
def real() -> Data:
    folder = os.environ.get("ROBUSTFL_DATA")
    if not folder or not (Path(folder) / "ag_news").is_dir():
        pytest.skip("set ROBUSTFL_DATA to a data folder with ag_news to test on the real files")
    return AgNews().load(Path(folder))


def test_real_ag_news(real: Data) -> None:
    assert real.variant in ("official", f"{ag_news.REBUILT} and official")
    assert real.train_x.shape == (120_000, 64) and real.test_x.shape == (7_600, 64)
    assert torch.bincount(real.train_y).tolist() == [30_000] * 4
    assert torch.bincount(real.test_y).tolist() == list(TEST_SAMPLES["AgNews"]) == [1_900] * 4
    assert real.vectors is not None and real.vectors.shape == (30_333, 100)
    assert int(real.train_x.max()) == 30_332
    unknown = (real.test_x == text.UNKNOWN).sum() / (real.test_x != text.PADDING).sum()
    assert float(unknown) < 0.04


def test_the_rebuilt_texts_are_the_original_ones_but_for_rare_words() -> None:
    folder = Path(os.environ.get("ROBUSTFL_DATA", "")) / "ag_news"
    originals, rebuilt = folder / "train_original_subset.csv.xz", folder / "train.csv.xz"
    if not originals.is_file() or not rebuilt.is_file():
        pytest.skip("needs the rebuilt training texts and the sample of original ones in ROBUSTFL_DATA")
    texts, labels = ag_news.parse(lzma.decompress(originals.read_bytes()))
    theirs, their_labels = ag_news.parse(lzma.decompress(rebuilt.read_bytes()))
    known = {word for tokens in theirs for word in tokens if not word.startswith("zqx")}

    def keys(rows: list[list[str]], classes: np.ndarray) -> list[tuple[int, ...]]:
        return [
            (label, *(hash(word) if word in known else 0 for word in row))
            for row, label in zip(rows, classes.tolist(), strict=True)
        ]

    there = set(keys(theirs, their_labels))
    assert np.mean([key in there for key in keys(texts, labels)]) > 0.999
