"""An environment that has what ``pip install`` brings to an empty one, and nothing else, made without network; a copy
of the package that a test changes."""

import json
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterable
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

from robustfl_bench.base.public import PACKAGE
from robustfl_bench.runner.config.options import CONF
from tests.processes import Outcome

ROOT = Path(__file__).resolve().parent.parent


def wheel(folder: Path) -> Path:
    """The wheel of this repository, built into a folder."""
    code = f"import hatchling.build as b; print(b.build_wheel({str(folder)!r}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return folder / done.stdout.strip().splitlines()[-1]


IN_ONE_PROCESS = """
import contextlib, io, json, sys
from robustfl_bench.commands import entry
for program, *words in json.loads(sys.argv[1]):
    sys.argv, code = [program, *words], 0
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        try:
            getattr(entry, program)()
        except SystemExit as end:
            code = end.code or 0
    print(json.dumps((code, out.getvalue(), err.getvalue())))
"""


def copied(folder: Path) -> Path:
    """A copy of the package in a folder, to be changed."""
    (folder / "conf").symlink_to(CONF)
    left = shutil.ignore_patterns("__pycache__", "conf", "kept")
    return Path(shutil.copytree(PACKAGE, folder / "robustfl_bench", ignore=left))


def of_copy(folder: Path, *commands: tuple[str, ...]) -> list[Outcome]:
    """What becomes of commands, one after the other in a process that imports the copy in a folder."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", IN_ONE_PROCESS, json.dumps(commands)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [Outcome(*json.loads(line)) for line in done.stdout.splitlines()]


class Installed:
    """The environment after ``pip install . EXTRAS`` in ``folder``."""

    def __init__(self, folder: Path, *extras: str) -> None:
        venv.create(folder, symlinks=True)
        self._bin = folder / "bin"
        (site,) = folder.glob("lib/python*/site-packages")
        with zipfile.ZipFile(wheel(folder)) as archive:
            archive.extractall(site)
        (info,) = site.glob("*.dist-info")
        needed = re.findall(r"^Requires-Dist: (.*)$", (info / "METADATA").read_text(), re.M)
        for name in _all_needed([*needed, *extras]):
            whole = distribution(name)
            for top in {file.parts[0] for file in whole.files or () if file.parts[0] not in ("..", "__pycache__")}:
                if not (site / top).exists():
                    (site / top).symlink_to(str(whole.locate_file(top)))
        for script, module, function in re.findall(
            r"^(\S+) = (\S+):(\S+)$", (info / "entry_points.txt").read_text(), re.M
        ):
            path = self._bin / script
            path.write_text(
                f"#!{self._bin}/python\nimport sys\nfrom {module} import {function}\nsys.exit({function}())\n"
            )
            path.chmod(0o755)

    def run(self, line: str, folder: Path) -> str:
        """What a line of a shell prints in a folder; it must succeed."""
        environment = {"PATH": f"{self._bin}:/usr/bin:/bin", "HOME": str(folder.parent), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            ["bash", "-c", line], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        return done.stdout


def _all_needed(requirements: Iterable[str]) -> list[str]:
    """The names of distributions that requirements install, with what these need in turn."""
    found: dict[str, None] = {}
    waiting = list(requirements)
    while waiting:
        requirement = Requirement(waiting.pop())
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        if requirement.name not in found:
            found[requirement.name] = None
            waiting += distribution(requirement.name).requires or []
    return list(found)
