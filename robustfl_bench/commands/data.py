"""The command ``robustfl-data``: list the data sets, prepare (download and check) them, verify their files, and show
how a run splits one over its clients, and who of these are neighbours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from robustfl_bench.base.console import answer_tab, as_json, reported, say
from robustfl_bench.base.errors import INTERRUPTED, ConfigError, DataError, near, one_line
from robustfl_bench.commands.verb import Argument, JsonFormat, called, override, parser_of
from robustfl_bench.parts.datasets import find_folder, leaf, load
from robustfl_bench.parts.datasets.base import Dataset
from robustfl_bench.parts.datasets.download import fetch
from robustfl_bench.parts.datasets.files import UNKNOWN, CheckedFile, Source, check, find, read
from robustfl_bench.runner.config import compose, options, targets

if TYPE_CHECKING:
    from robustfl_bench.parts.datasets.base import Data


def named_options(config_dir: Path | None = None) -> list[str]:
    """The names of all data sets, in alphabetical order; raises ConfigError if ``config_dir`` is no folder."""
    return options.names("dataset", options.search(config_dir))


def dataset_of(name: str, config_dir: Path | None = None) -> Dataset:
    """The data set of ``robustfl-bench dataset=NAME``, with every other setting at its default.

    The options of the package come before those of ``config_dir``. Raises ConfigError when an option cannot be built.
    """
    try:
        dataset = targets.build(compose.resolve([f"dataset={name}"], options.search(config_dir)).config["dataset"])
    except ConfigError as error:
        raise ConfigError(f"dataset={name}: {error}") from error
    if not isinstance(dataset, Dataset):
        raise ConfigError(
            f"dataset={name}: {type(dataset).__name__} must inherit from robustfl_bench.interfaces.Dataset"
        )
    return dataset


PROGRAM = "robustfl-data"
HEADINGS = ("name", "shape", "classes", "train", "test", "state", "licence", "variant", "files")


def main(argv: Sequence[str] | None = None) -> int:
    """Console entry point; returns its exit code."""
    about = "Data sets: their files, and how a run splits them over its clients, who may be neighbours."
    parser = parser_of(PROGRAM, about, VERBS)
    answer_tab(parser)
    asked = parser.parse_args(argv)
    try:
        return reported(called, asked.verb, asked, prefix=PROGRAM)
    except KeyboardInterrupt:
        say(f"{PROGRAM}: interrupted; run the same command again to continue")
        return INTERRUPTED


@dataclass(frozen=True, kw_only=True)
class Folders:
    """Where data sets lie."""

    data_dir: Annotated[
        str | None, Argument("the data folder (ROBUSTFL_DATA if set, else the user's cache folder)")
    ] = None
    config_dir: Annotated[Path | None, Argument("a folder with dataset/NAME.yaml files for your own data sets")] = None

    @property
    def root(self) -> Path:
        """The data folder."""
        return find_folder(self.data_dir)


@dataclass(frozen=True)
class Named(Folders):
    """Data sets by name."""

    names: Annotated[Sequence[str], Argument(", ".join(named_options()), "NAME", tab=lambda **_: named_options())]

    def each(self, command: Callable[[str, Dataset, Path], None]) -> int:
        """Call the command with each data set and the data folder; returns the largest exit code. A data set that is
        missing or damaged does not stop the others. Raises ConfigError for an unknown name."""
        datasets = {name: dataset_of(self._checked(name), self.config_dir) for name in self.names}
        return max(reported(command, name, dataset, self.root, prefix=PROGRAM) for name, dataset in datasets.items())

    def _checked(self, name: str) -> str:
        names = named_options(self.config_dir)
        if name not in names:
            raise ConfigError(f"no data set {name!r}{near(name, names) or '; there are ' + ', '.join(names)}")
        return name


def sources(dataset: Dataset) -> list[Source]:
    """The descriptions of a data set's files, those of its base first; empty if it has none."""
    described = [dataset.source] if dataset.source else []
    while described and described[0].base is not None:
        described.insert(0, described[0].base)
    return described


def loaded(dataset: Dataset, root: Path) -> Data:
    """The data of a data set, on the CPU. Raises DataError."""
    import torch  # over a second, which only those who load data pay

    return load(dataset, str(root), torch.device("cpu"))


def list_(*, folders: Folders, format: JsonFormat = "text") -> None:
    """The data sets, and the state of their files."""
    rows: list[tuple[str, ...]] = [HEADINGS]
    for name in named_options(folders.config_dir):
        dataset = dataset_of(name, folders.config_dir)
        try:
            shape, classes = "x".join(map(str, dataset.input_shape)), str(dataset.num_classes)
        except DataError as error:  # of a data set whose files say it
            rows.append((name, "-", "-", *_missing(error)))
            continue
        described = sources(dataset)
        cells = _of_files(described, folders.root) if described else _of_loaded(dataset, folders.root)
        rows.append((name, shape, classes, *cells))
    if format == "json":
        print(as_json([dict(zip(HEADINGS, row, strict=True)) for row in rows[1:]]), end="")
        return
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _of_files(described: Sequence[Source], root: Path) -> tuple[str, ...]:
    """The cells from ``train`` on of a data set with known files: each is read and compared with its checksum."""
    own = described[-1]
    if own.is_drawn:
        return "-", "-", "ready", own.licence, "generated", "-"
    layouts = [find(source, root) for source in described]
    if None in layouts:
        return "-", "-", "missing", own.licence, "-", f"not in {root}"
    try:
        checked = [read(source, root) for source in described]
        files, variant = checked[-1]
        train, test = own.samples(files) or _counted(files) or ("-", "-")
    except DataError as error:
        return "-", "-", "damaged", own.licence, "-", one_line(error)
    assert layouts[-1] is not None
    return str(train), str(test), "ready", own.licence, variant, str(root / layouts[-1].path)


def _counted(files: Sequence[CheckedFile]) -> tuple[int, int] | None:
    """The samples in LEAF's files; None for texts, which are cut into samples when they are loaded."""
    if any(file.variant != UNKNOWN or "/" not in file.name for file in files):
        return None
    train, test = (leaf.users(file for file in files if file.name.startswith(part)) for part in ("train/", "test/"))
    return leaf.count(train), leaf.count(test)


def _of_loaded(dataset: Dataset, root: Path) -> tuple[str, ...]:
    """The same cells for a data set that does not describe its files: it is loaded."""
    try:
        data = loaded(dataset, root)
    except DataError as error:
        return _missing(error)
    return str(len(data.train_y)), str(len(data.test_y)), "ready", "?", data.variant, f"in {root}"


def _missing(error: DataError) -> tuple[str, ...]:
    return "-", "-", "missing", "?", "-", one_line(error)


def prepare(named: Named) -> int:
    """Check the files of data sets, and download those that are missing or damaged."""
    return named.each(_prepare)


def _prepare(name: str, dataset: Dataset, root: Path) -> None:
    """Use the files under ``root`` if they are right, else download the official ones into it. Raises DataError."""
    if not (described := sources(dataset)):
        print(f"{name}: ready in {root} ({loaded(dataset, root).variant})")
    for source in described:
        if source.is_drawn:
            print(f"{name}: ready, drawn from the seed without any files")
            continue
        try:
            _, variant = read(source, root)
        except DataError:
            if source.downloads:
                print(f"{source.name}: downloading into {root / source.name}")
            for download in source.downloads:
                fetch(download, root / source.name)
            _, variant = read(source, root)
        layout = find(source, root)
        assert layout is not None
        print(f"{source.name}: ready in {root / layout.path} ({variant})")


def verify(named: Named, *, format: JsonFormat = "text") -> int:
    """Check every file, load the data and print their digest."""
    answers: list[dict[str, Any]] = []
    is_text = format == "text"

    def checked(name: str, dataset: Dataset, root: Path) -> None:
        answer: dict[str, Any] = {"name": name, "files": [], "problem": "", "remark": ""}
        answers.append(answer)
        try:
            _verify(dataset, root, answer)
        except DataError as error:
            answer["problem"] = str(error)
            raise
        finally:
            if is_text:
                print("".join(f"{line}\n" for line in _lines(answer)), end="")

    code = named.each(checked)
    if not is_text:
        print(as_json(answers), end="")
    return code


def _verify(dataset: Dataset, root: Path, answer: dict[str, Any]) -> None:
    """Add the state of every file to the answer, then the origin of the data. Raises DataError for bad files."""
    for source in sources(dataset):
        files = [] if source.is_drawn else check(source, root)
        answer["files"] += [{"path": file.path, "variant": file.variant, "problem": file.problem} for file in files]
        bad = sum(bool(file.problem) for file in files)
        if bad:
            raise DataError(f"{source.name}: {bad} of {len(files)} files are bad; {source.remedy(root)}")
    try:
        answer.update(loaded(dataset, root).origin)
    except ConfigError as error:
        answer["remark"] = f"no digest, as the default settings do not suit these files: {error}"


def _lines(answer: dict[str, Any]) -> list[str]:
    """The answer as text, without an error, which is printed as such."""
    lines = [f"BAD {file['path']}: {file['problem']}" if file["problem"] else f"OK  {file['path']}: {file['variant']}"
             for file in answer["files"]]  # fmt: skip
    if "digest" in answer:
        samples = f"{answer['train_samples']} + {answer['test_samples']} samples ({answer['variant']})"
        return [*lines, f"{answer['name']}: {samples}, digest {answer['digest']}"]
    return [*lines, f"{answer['name']}: {answer['remark']}"] if answer["remark"] else lines


def partition(
    overrides: Annotated[
        Sequence[str], override("override, as for robustfl-bench: partition=fang seed=1", "KEY=VALUE")
    ] = (),
    *,
    output: Annotated[
        Path | None,
        Argument("write the partition, for partition=from_file partition.path=FILE.csv", "FILE.csv"),
    ] = None,
    picture: Annotated[str | None, Argument("draw the partition, as a .png, .pdf or .svg file", "FILE")] = None,
    format: JsonFormat = "text",
    config_dir: Annotated[Path | None, Argument("a folder with your own options, such as partition/NAME.yaml")] = None,
) -> None:
    """Which client holds what in a run of robustfl-bench, and how skewed that is."""
    from robustfl_bench.read.pages.pictures.canvas import check_format, save
    from robustfl_bench.read.pages.split import draw_split
    from robustfl_bench.runner.experiment.split import split_of
    from robustfl_bench.runner.store.writing import write_output

    if output is not None and output.suffix != ".csv":
        raise ConfigError(f"--output must end in .csv, got {output}")
    if picture is not None:
        check_format(picture, "--picture")
    split = split_of(overrides, options.search(config_dir))
    print(as_json(split.as_mapping()) if format == "json" else f"{split.report()}\n", end="")
    if output is not None:
        write_output(output, split.csv())
        print(f"{output}: partition=from_file partition.path={output} num_clients={len(split.shards)}")
    if picture is not None:
        print(save(draw_split(split), picture, "--picture"))


def topology(
    overrides: Annotated[
        Sequence[str], override("override, as for robustfl-bench -m: topology=ring,torus", "KEY=VALUE")
    ] = (),
    *,
    picture: Annotated[str | None, Argument("draw the graph, as a .png, .pdf or .svg file", "FILE")] = None,
    format: JsonFormat = "text",
    config_dir: Annotated[Path | None, Argument("a folder with your own options")] = None,
) -> None:
    """Who exchanges models with whom in a run of robustfl-bench protocol=gossip."""
    from robustfl_bench.read.pages.pictures.canvas import check_format, save
    from robustfl_bench.read.pages.split import draw_graphs
    from robustfl_bench.runner.experiment.split import graph_of

    if picture is not None:
        check_format(picture, "--picture")
    where = options.search(config_dir)
    graphs = [graph_of(run, where) for run in compose.sweep(["protocol=gossip", *overrides], where)]
    reports = "\n\n".join(graph.report() for graph in graphs)
    print(as_json([graph.as_mapping() for graph in graphs]) if format == "json" else f"{reports}\n", end="")
    if picture is not None:
        print(save(draw_graphs(graphs), picture, "--picture"))


VERBS = (list_, prepare, verify, partition, topology)
