"""``robustfl-data partition``: which client holds what in a run, as text, a CSV file and a picture."""

from argparse import Namespace
from pathlib import Path

from robustfl_bench.base.answers import add_format, as_json
from robustfl_bench.base.console import Parser, completed
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.commands.verb import Verb
from robustfl_bench.runner.config.completion import overrides
from robustfl_bench.runner.config.options import search


def _add(parser: Parser) -> None:
    words = parser.add_argument(
        "overrides", nargs="*", metavar="KEY=VALUE", help="override, as for robustfl-bench: partition=fang seed=1"
    )
    completed(words, overrides)
    parser.add_argument(
        "--output", metavar="FILE.csv", help="write the partition, for partition=from_file partition.path=FILE.csv"
    )
    parser.add_argument("--picture", metavar="FILE", help="draw the partition, as a .png, .pdf or .svg file")
    add_format(parser)
    parser.add_argument("--config-dir", type=Path, help="a folder with your own options, such as partition/NAME.yaml")


def _run(arguments: Namespace) -> None:
    from robustfl_bench.read.pages.pictures.canvas import check_format, save
    from robustfl_bench.read.pages.split import draw
    from robustfl_bench.runner.experiment.split import made
    from robustfl_bench.runner.store.writing import write_output

    output, picture, config_dir = arguments.output, arguments.picture, arguments.config_dir
    if output is not None and Path(output).suffix != ".csv":
        raise ConfigError(f"--output must end in .csv, got {output}")
    if picture is not None:
        check_format(picture, "--picture")
    split = made(arguments.overrides, search(config_dir))
    print(as_json(split.as_mapping()) if arguments.format == "json" else f"{split.report()}\n", end="")
    if output is not None:
        write_output(Path(output), split.csv())
        print(f"{output}: partition=from_file partition.path={output} num_clients={len(split.shards)}")
    if picture is not None:
        print(save(draw(split), picture, "--picture"))


VERB = Verb("partition", "which client holds what in a run of robustfl-bench, and how skewed that is", _add, _run)
