"""Parts given as Python objects, as the words of a command line that choose the same parts; arrays, tables and data
sets of other packages given as data, as a file that a command can read again.

A run of objects and a run of these words have the same config, and so the same id.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from types import FunctionType
from typing import Any

from robustfl_bench.base import public
from robustfl_bench.base.abilities import Part
from robustfl_bench.base.console import note, note_once
from robustfl_bench.base.errors import ConfigError, DataError, writable
from robustfl_bench.base.late import np, pd
from robustfl_bench.runner.config import choices, identity, options, outside, words
from robustfl_bench.train.parts import GROUPS


def overrides(settings: Mapping[str, Any]) -> list[str]:
    """The words of ``robustfl-bench`` for settings by name. Raises ConfigError for values that no config can hold.

    The value of a config group is the name of an option, a part, its class, a function, the content of a part as a
    mapping, or a list of these; None is the option ``none``. Any other value is written as it is.
    """
    return [
        word
        for name, value in settings.items()
        for word in (
            _of_group(name, value) if name in GROUPS else [f"{name}={words.written(_plain(name, _called(value)))}"]
        )
    ]


def _called(value: Any) -> Any:
    """Functions of the user, as metrics are, by their words; any other value as it is."""
    if isinstance(value, FunctionType):
        return outside.word(target_of(value))
    return [_called(item) for item in value] if isinstance(value, list) else value


def _of_group(group: str, value: Any) -> list[str]:
    """The words that choose the option, or several options, of a config group, and then set their fields."""
    if isinstance(value, Mapping) and "_target_" not in value:
        value = list(value.values()) or None
    several = isinstance(value, list | tuple)
    pairs = [_chosen(group, item) for item in (value if several else [value])]
    names = ",".join(name for name, _ in pairs)
    return [f"{group}={f'[{names}]' if several else names}", *(word for _, fields in pairs for word in fields)]


def _chosen(group: str, value: Any) -> tuple[str, list[str]]:
    """The option of a group that a value stands for, and the words for the fields in which a part differs from it."""
    if value is None or isinstance(value, str):
        return value or choices.nothing(group), []
    if isinstance(value, FunctionType | type):
        return _of_class(group, target_of(value)), []
    if not isinstance(value, Part | Mapping):
        given = repr(value) if isinstance(value, int | float) else f"a {type(value).__name__}"
        hint = ": give the class of the network, or a function that makes it" if group == "model" else ""
        raise ConfigError(f"{group} takes the name of an option, a part or its class, got {given}{hint}")
    content = value if isinstance(value, Mapping) else content_of(value)
    option = choices.nearest(group, content)
    place = options.place_of(group, option)
    return option, list(_fields(f"{group}.{place}" if place else group, options.option(group, option), content))


def _of_class(group: str, target: str) -> str:
    """The option of a group that is this class of the package with the defaults of its fields, or else the class."""
    word = outside.word(target)
    if not target.startswith(f"{public.PACKAGE.name}."):
        return word
    content = identity.canonical(outside.content(group, word))
    same = (name for name in options.names(group) if identity.canonical(options.option(group, name)) == content)
    return min(same, key=lambda name: options.original(group, name) != name, default=word)


def _fields(prefix: str, given: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterable[str]:
    """The words that turn the content of an option into another one of the same class."""
    for name in given.keys() - wanted.keys():
        yield f"~{prefix}.{name}"
    for name in choices.unlike(given, wanted):
        key, replaced = f"{prefix}.{name}", isinstance(given.get(name), Mapping)
        if replaced:  # else the two mappings would be merged
            yield f"~{key}"
        yield f"{'++' if replaced or name not in given else ''}{key}={words.written(wanted[name])}"


def content_of(part: Part) -> dict[str, Any]:
    """The part as a config holds it: its class and all its fields. Raises ConfigError for what a config cannot hold."""
    cls = type(part)
    if not is_dataclass(cls) and cls.__init__ is not object.__init__:
        raise ConfigError(f"{cls.__name__} must be a dataclass, so that a config can hold the values it was made with")
    own: Sequence[Field[Any]] = [field for field in fields(cls) if field.init] if is_dataclass(cls) else []
    content: dict[str, Any] = {"_target_": target_of(cls)}
    for field in own:
        value = getattr(part, field.name)
        if value is not field.default or outside.plain(value) is not MISSING:  # else no config can hold the default
            content[field.name] = _plain(f"{cls.__name__}.{field.name}", value)
    return content


def target_of(made: Any) -> str:
    """The public dotted name of a class or function. Raises ConfigError if it cannot be found again by a name."""
    module, name = made.__module__, made.__qualname__
    if not name.isidentifier():
        raise ConfigError(f"{name} must be defined at the top level of a module, or in a cell of a notebook")
    room = public.public(module.rpartition(".")[0])
    own = module.startswith(f"{public.PACKAGE.name}.") and public.modules_of(room).get(name) == module
    return f"{room if own else public.public(module)}.{name}"


def _plain(place: str, value: Any) -> Any:
    """A value as a config holds it. Raises ConfigError."""
    if isinstance(value, Part):
        return content_of(value)
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(f"{place}.{key}", item) for key, item in value.items()}
    if isinstance(value, list | tuple | range):
        return [_plain(place, item) for item in value]
    if getattr(value, "shape", None) == () and hasattr(value, "item"):  # a number of NumPy or PyTorch
        return value.item()
    if (plain := outside.plain(value)) is MISSING:
        raise ConfigError(f"{place} is a {type(value).__name__}; a config holds numbers, words, lists and parts")
    return plain


FOLDER = "data"
"""The folder in a results folder for arrays that were given to ``run`` or ``sweep``."""


def stored(settings: Mapping[str, Any], results_dir: str | Path | None) -> dict[str, Any]:
    """The settings, with data given as ``dataset`` as the file that holds them.

    These are arrays ``(X, y)`` or ``(X, y, X_test, y_test)``, a mapping of arrays with these names, a table of pandas,
    a data set of PyTorch, or one of Hugging Face, whose splits ``train`` and ``test`` may be in a mapping. The file, in
    the results folder, is named by its content and written once. A list of such is swept. Raises DataError, and
    ConfigError where the folder cannot be written.
    """
    value = settings.get("dataset")
    if isinstance(value, list):
        each = [stored({"dataset": item}, results_dir) for item in value]
        if paths := [one["dataset.path"] for one in each if "dataset.path" in one]:
            if len(paths) < len(each):
                raise DataError("a list for dataset holds arrays (X, y) alone, or names of data sets alone")
            return {**settings, "dataset": "arrays", "dataset.path": paths}
    columns = (settings.get("dataset.label"), settings.get("dataset.client"))
    if (given := _given(value, *columns)) is None:
        return dict(settings)

    from robustfl_bench.parts.datasets import own_files

    arrays = {name: _array(name, item) for name, item in given.items()}
    settings = {name: item for name, item in settings.items() if name != "dataset.label"}
    total = hashlib.sha256()
    for name, array in arrays.items():
        if array.dtype.hasobject:
            if (is_missing := pd.isna(array)).any():
                raise DataError(f"{name}[{is_missing.argmax()}] has no value: {own_files.MEND}")
            raise DataError(f"{name} must be numbers, and labels numbers or words, got an array of Python objects")
        if place := own_files.first_not_finite(name, array):
            raise DataError(f"dataset has a number that is not finite: {place}; {own_files.MEND}")
        total.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        total.update(np.ascontiguousarray(array).tobytes())
    path = Path(results_dir or "results").expanduser() / FOLDER / f"{total.hexdigest()[:16]}.npz"
    if not path.exists():
        partial = path.with_name(f".{os.getpid()}-{path.name}")
        with writable(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                np.savez_compressed(partial, allow_pickle=False, **arrays)
                partial.replace(path)
            finally:
                partial.unlink(missing_ok=True)  # of a full disk
    return {**settings, "dataset": "arrays", "dataset.path": str(path)}


NAMES = {2: ("x", "y"), 4: ("x_train", "y_train", "x_test", "y_test")}
"""The names of arrays in a file, by their number."""


def _given(value: Any, label: str | None, client: str | None) -> dict[str, Any] | None:
    """The arrays of what is given as data, by their names in a file; None for what is no data. Raises DataError."""
    if isinstance(value, tuple) and value and not any(isinstance(item, str) for item in value):
        if len(value) not in NAMES:
            raise DataError(f"dataset takes arrays (X, y) or (X, y, X_test, y_test), got {len(value)} of them")
        return dict(zip(NAMES[len(value)], value, strict=True))
    if isinstance(value, Mapping) and "_target_" not in value:
        if {"train", "test"} <= value.keys() and all(_is_dataset(value[part]) for part in ("train", "test")):
            tell = note_once()
            parts = {part: _of_dataset(value[part], label, client, tell) for part in ("train", "test")}
            split = {f"{name}_{part}": arrays[name] for part, arrays in parts.items() for name in ("x", "y")}
            return {**split, **({client: parts["train"][client]} if client else {})}
        wanted = next((names for names in NAMES.values() if {*names} <= value.keys()), None)
        if wanted is not None:
            return {name: value[name] for name in (*wanted, *([client] if client and client in value else []))}
        takes = f"it takes x and y, or {', '.join(NAMES[4])}, or a train and a test that are tables or data sets"
        raise DataError(f"dataset has {', '.join(map(str, value))}: {takes}")
    return _of_dataset(value, label, client) if _is_dataset(value) else None


def _is_dataset(value: Any) -> bool:
    """Whether it is a table of pandas, or a data set of PyTorch or Hugging Face."""
    if isinstance(value, type):
        return False
    bases = {f"{base.__module__.partition('.')[0]}.{base.__name__}" for base in type(value).__mro__}
    return bool(bases & {"pandas.DataFrame", "torch.Dataset", "datasets.Dataset"})


def _of_dataset(
    value: Any, label: str | None, client: str | None, tell: Callable[[str], None] = note
) -> dict[str, Any]:
    """The arrays of a table or a data set; a guess of its labels is told. Raises DataError."""
    from robustfl_bench.parts.datasets.own_files import LABELS, label_of

    if hasattr(value, "with_format"):  # of Hugging Face: its columns, images as arrays
        columns: dict[str, Any] = dict(value.with_format("numpy")[:])
    elif hasattr(value, "columns"):
        columns = {str(name): value[name].to_numpy() for name in value.columns}
    else:
        return _of_pairs(value)
    if not columns:
        raise DataError("dataset: the table has no columns")
    others = [name for name in columns if name != client] or [*columns]
    chosen = label or label_of(others, tell, (*LABELS, "labels"))
    for name in (chosen, *([client] if client else [])):
        if name not in columns:
            raise DataError(f"dataset has no column {name!r}; there are: {', '.join(columns)}")
    rest = {name: np.asarray(column) for name, column in columns.items() if name not in (chosen, client)}
    if not rest:
        raise DataError(f"dataset: the table has no columns of numbers beside {chosen}")
    if odd := [name for name, column in rest.items() if column.dtype.kind not in "biuf"]:
        raise DataError(f"dataset: the column {odd[0]!r} has no numbers: leave it out, or make numbers of it "
                        "(pandas.get_dummies)")  # fmt: skip
    several = [column for column in rest.values() if column.ndim > 1]
    x = several[0] if len(rest) == len(several) == 1 else np.column_stack([*rest.values()])
    return {"x": x, "y": columns[chosen], **({client: columns[client]} if client else {})}


def _of_pairs(value: Any) -> dict[str, Any]:
    """The arrays of a data set of PyTorch, whose items are samples with labels. Raises DataError."""
    import torch

    if len(tensors := getattr(value, "tensors", ())) == 2:
        return dict(zip(("x", "y"), tensors, strict=True))
    if not hasattr(value, "__len__"):
        raise DataError(f"dataset is a {type(value).__name__} without a length; give arrays (X, y)")
    items: Iterable[Any] = (value[i] for i in range(len(value)))
    try:
        samples, labels = zip(*((torch.as_tensor(x), int(y)) for x, y in items), strict=True)
        return {"x": torch.stack(samples), "y": torch.tensor(labels)}
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(f"dataset is a {type(value).__name__} whose items are no pairs of a tensor and a label: {error}"
                        ) from error  # fmt: skip


def _array(name: str, item: Any) -> "np.ndarray":
    """An array of what was given, which may be a tensor, a list, or a column of words of a table. Raises DataError."""
    if isinstance(item, np.ma.MaskedArray) and np.ma.is_masked(item):
        raise DataError(f"{name} has masked values, which would count as numbers; fill them or leave their samples out")
    try:
        array = np.asarray(item.detach().cpu() if hasattr(item, "detach") else item)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} is no array: {error}") from error
    words = array.dtype.hasobject and all(isinstance(value, str) for value in array.flat)
    return array.astype(str) if words else array
