"""The digest of the code that computes a run: of what stands here and of its parts, not of what records or explains."""

from robustfl_bench.base.code_digest import Closure, Computing, Outside

COMPUTING = Computing(
    always=(
        ("robustfl_bench.datasets", "load"),
        ("robustfl_bench.train.federation", "federation_of"),
        ("robustfl_bench.train.stack", "Stack"),
        ("robustfl_bench.train.rounds", "initial_state"),
        ("robustfl_bench.train.rounds", "step"),
        ("robustfl_bench.train.evaluation", "on_test_set"),
        ("robustfl_bench.train.evaluation", "on_validation_set"),
        ("robustfl_bench.train.evaluation", "on_goal"),
        ("robustfl_bench.train.precision", "set_precision"),
    ),
    named=(
        (r"\bmedium\b", ("robustfl_bench.numerics.network.bfloat16", "rounded")),  # precision=medium
        (r"\battacks\.Claiming\b", ("robustfl_bench.train.claims", "claimed")),
    ),
    neutral=frozenset(
        f"robustfl_bench.{name}"
        for name in (
            "base.misspelt",
            "base.read_only",
            "base.contained",
            "base.console",
            "base.errors",
            "base.fields",
            "numerics.network.augments",
            "train.execution",
        )
    ),
)
"""Reading data, dealing them out, the rounds, and the tests of the models. Neutral modules only refuse, report, and say
where and how long a run is computed."""


def code_digest(config: object, outside: Outside = ()) -> str:
    """SHA-256 over the code of this package that can change the numbers of a run.

    This is the text of all functions, methods, class bodies and constants that can be reached from COMPUTING and from
    the parts and the precision that ``config`` names, and from ``outside``, the code of parts from outside: files or
    texts. So an edit of a rule changes the digests of runs with this rule. An edit of a table, a docstring, an error
    message or of the name of a local variable changes none, nor does moving code to another module. Not covered: conf/
    and how configs are composed, which a run's id covers, the machine and the libraries.
    """
    return COMPUTING.digest(config, outside)


def closure_of(config: object, outside: Outside = ()) -> Closure:
    """The code of this package that can change the numbers of a run, see ``code_digest``."""
    return COMPUTING.closure(config, outside)
