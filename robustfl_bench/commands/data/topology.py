"""``robustfl-data topology``: who is whose neighbour in a run by gossip, as numbers and as a picture."""

from argparse import Namespace
from pathlib import Path

from robustfl_bench.base.answers import add_format, as_json
from robustfl_bench.base.console import Parser, completed
from robustfl_bench.commands.verb import Verb
from robustfl_bench.runner.config.completion import overrides
from robustfl_bench.runner.config.compose import sweep
from robustfl_bench.runner.config.options import search


def _add(parser: Parser) -> None:
    words = parser.add_argument(
        "overrides", nargs="*", metavar="KEY=VALUE", help="override, as for robustfl-bench -m: topology=ring,torus"
    )
    completed(words, overrides)
    parser.add_argument("--picture", metavar="FILE", help="draw the graph, as a .png, .pdf or .svg file")
    add_format(parser)
    parser.add_argument("--config-dir", type=Path, help="a folder with your own options")


def _run(arguments: Namespace) -> None:
    from robustfl_bench.read.pages.neighbours import draw
    from robustfl_bench.read.pages.pictures.canvas import save
    from robustfl_bench.runner.experiment.neighbours import made

    where = search(arguments.config_dir)
    graphs = [made(run, where) for run in sweep(["protocol=gossip", *arguments.overrides], where)]
    reports = "\n\n".join(graph.report() for graph in graphs)
    print(as_json([graph.as_mapping() for graph in graphs]) if arguments.format == "json" else f"{reports}\n", end="")
    if arguments.picture is not None:
        print(save(draw(graphs), arguments.picture, "--picture"))


VERB = Verb("topology", "who exchanges models with whom in a run of robustfl-bench protocol=gossip", _add, _run)
