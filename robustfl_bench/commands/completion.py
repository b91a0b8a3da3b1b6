"""``robustfl-bench completion``: the shell code for tab completion of the four commands, and candidates for the
first."""

import sys
from argparse import Namespace

from robustfl_bench.base.console import Parser, answer_tab, completed
from robustfl_bench.commands import flags, new
from robustfl_bench.commands.entry import LABORATORY, PROGRAMS, VERBS
from robustfl_bench.runner.config import completion, options, words


def main() -> int:
    """Console entry point: print code for a shell to evaluate, or the candidates for ``robustfl-bench``."""
    answer_tab(_bench())
    parser = Parser(
        prog="robustfl-bench completion",
        description="Print the tab completion of the robustfl commands, for the shell to evaluate.",
        epilog='bash, zsh: eval "$(robustfl-bench completion)"; fish: robustfl-bench completion fish | source',
    )
    parser.add_argument("shell", nargs="?", choices=("bash", "zsh", "fish"), default="bash")
    shell = parser.parse_args(sys.argv[1:]).shell

    from argcomplete.shell_integration import shellcode

    print(shellcode(PROGRAMS, shell=shell))
    return 0


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
            return list(new.KINDS)
        case False, []:
            return [*VERBS, *LABORATORY, *completion.overrides(prefix, parsed_args)]
    return completion.overrides(prefix, parsed_args)
