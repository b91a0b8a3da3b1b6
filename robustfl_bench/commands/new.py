"""``robustfl-bench new GROUP NAME``: a template of your own part, with a test that passes."""

import keyword
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from robustfl_bench.base.errors import ConfigError, near, writable
from robustfl_bench.commands.verb import Argument, command
from robustfl_bench.runner.config import options

_TEMPLATES = Path(__file__).resolve().parent / "templates"


@dataclass(frozen=True)
class _Kind:
    """Differences between groups: the check of ``testing`` for a part, and the settings of a first run and sweep."""

    check: str = ""
    run: str = "attack=ipm"
    sweep: str = "aggregator=average,krum,coomed attack=none,ipm,lie"


LONGEST = 60
"""Letters of a name: those of its files, and of the run folders that it is part of, have at most 255."""
KINDS = {
    "aggregator": _Kind("check_aggregator({cls}(num_byzantine=3), num_byzantine=3)", sweep="attack=none,ipm,lie"),
    "attack": _Kind("check_attack({cls}())", run="aggregator=krum", sweep="aggregator=average,krum,coomed"),
    "dataset": _Kind("check_dataset({cls}(seed=0), tmp_path)", run="partition=iid attack=ipm"),
    "local_update": _Kind(),
    "metric": _Kind(run="aggregator=krum attack=ipm"),
    "model": _Kind(),
    "partition": _Kind("check_partition({cls}())"),
    "pre_aggregation": _Kind(),
    "protocol": _Kind("check_protocol({cls}())"),
    "schedule": _Kind(),
    "server_optimizer": _Kind(),
}
_BESIDE = {"aggregator": "average,krum,coomed", "attack": "none,ipm,lie"}

_CHECKED = """

def test_{name}_keeps_its_promises({arguments}) -> None:
    {check}
"""
_TEST = '''"""Checks of the {group} {name}."""

from pathlib import Path
from typing import Annotated

import robustfl_bench
{imports}{checked}

def test_{name}_runs(tmp_path: Path) -> None:
    result = robustfl_bench.run("{own}", {run}, "rounds=2", results_dir=tmp_path)
    assert result.summary["status"] == "finished"
'''


def new(
    group: Annotated[str, Argument(", ".join(KINDS), "GROUP")],
    name: Annotated[str, Argument("the name of the part, such as cosine_vote", "NAME")],
) -> None:
    """Write a template of your own part, NAME.py, and its test, test_NAME.py, into this folder."""
    if group not in KINDS:
        raise ConfigError(f"no template of {group!r}{near(group, KINDS)}; there are: {', '.join(KINDS)}")
    part, test = Path(f"{name}.py"), Path(f"test_{name}.py")
    _check_name(group, name, (part, test))
    cls = name if group == "metric" else "".join(word.capitalize() for word in name.split("_"))
    code = (_TEMPLATES / f"{group}.py").read_text(encoding="utf-8").replace("Template", cls)
    code = code.replace("def template(", f"def {name}(")
    with writable(part):
        part.write_text(code.replace('name = "template"', f'name = "{name}"'), encoding="utf-8")
        test.write_text(_test(group, name, cls), encoding="utf-8")
    print(f"wrote {part} and {test}; next:\n{_next(group, name, cls)}")


main = command(new, "robustfl-bench new", reads=False)


def _check_name(group: str, name: str, files: Sequence[Path]) -> None:
    """Raise ConfigError unless ``name`` is a module name that hides no other module, and its files do not exist yet."""
    if not name.isidentifier() or not name.isascii() or name != name.lower() or not name[0].isalpha():
        raise ConfigError(f"NAME must be lower-case letters, digits and _, such as cosine_vote; got {name!r}")
    if len(name) > LONGEST:
        raise ConfigError(f"NAME must have at most {LONGEST} letters, got {len(name)}")
    if keyword.iskeyword(name):
        raise ConfigError(f"{name} is a word of Python; take another name")
    if options.exists(group, name):
        raise ConfigError(f"{group}={name} exists already; take another name")
    if existing := [str(path) for path in files if path.exists()]:
        raise ConfigError(f"{' and '.join(existing)} exist{'s' * (len(existing) == 1)} already; take another name")
    if name in sys.stdlib_module_names or find_spec(name) is not None:
        raise ConfigError(f"{name} is the name of a module that is installed; take another name")


def _test(group: str, name: str, cls: str) -> str:
    kind = KINDS[group]
    imports = f"\nfrom {name} import {cls}\n" if kind.check else ""
    checked = ""
    if kind.check:
        imports = f"from robustfl_bench.doors.testing import {kind.check.partition('(')[0]}\n{imports}"
        arguments = "tmp_path: Path" if "tmp_path" in kind.check else ""
        checked = _CHECKED.format(name=name, arguments=arguments, check=kind.check.format(cls=cls))
    run = ", ".join(f'"{word}"' for word in kind.run.split())
    own = _word(group, name, cls)
    return _TEST.format(group=group, name=name, own=own, imports=imports, checked=checked, run=run)


def _word(group: str, name: str, cls: str) -> str:
    """The word of a command that chooses the part."""
    return f"{'metrics' if group == 'metric' else group}={name}:{cls}"


def _next(group: str, name: str, cls: str) -> str:
    kind = KINDS[group]
    own = _word(group, name, cls)
    swept = f"{own},{_BESIDE[group]}" if group in _BESIDE else own
    lines = [
        *([] if find_spec("pytest") else ["python -m pip install pytest"]),
        f"python -m pytest test_{name}.py",
        f"robustfl-bench {own} {kind.run}",
        f"robustfl-bench -m {swept} {kind.sweep} seed=0,1,2",
        "robustfl-results table",
        "robustfl-results plot accuracy --output accuracy.png",
    ]
    return "\n".join(f"  {line}" for line in lines)
