"""``robustfl-bench completion``: the shell code for tab completion of the four commands, and candidates for the
first."""

from argparse import Namespace
from typing import Annotated

from robustfl_bench.base.console import Parser, answer_tab, completed
from robustfl_bench.commands import flags
from robustfl_bench.commands.entry import LABORATORY, PROGRAMS, VERBS
from robustfl_bench.commands.new import KINDS
from robustfl_bench.commands.verb import Argument, command, overrides
from robustfl_bench.runner.config import options, words


def main() -> int:
    """Console entry point: print code for a shell to evaluate, or the candidates for ``robustfl-bench``."""
    answer_tab(_bench())
    return _completion()


def completion(shell: Annotated[str, Argument(choices=("bash", "zsh", "fish"))] = "bash") -> None:
    """Print the tab completion of the robustfl commands, for the shell to evaluate."""
    from argcomplete.shell_integration import shellcode

    print(shellcode(PROGRAMS, shell=shell))


_completion = command(
    completion,
    "robustfl-bench completion",
    reads=False,
    epilog='bash, zsh: eval "$(robustfl-bench completion)"; fish: robustfl-bench completion fish | source',
)


def _bench() -> Parser:
    """A parser of the words of ``robustfl-bench`` for tab completion."""
    parser = flags.Flags()
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--version", action="store_true")
    completed(parser.overrides, _words)
    return parser


def _words(prefix: str, parsed_args: Namespace, **rest: object) -> list[str]:
    match parsed_args.list, parsed_args.overrides or []:
        case True, []:
            return [*options.defaults()[0], *words.PRESETS]
        case True, [group]:
            return options.names(group)
        case False, ["new"]:
            return list(KINDS)
        case False, []:
            return [*VERBS, *LABORATORY, *overrides(prefix, parsed_args)]
    return overrides(prefix, parsed_args)
