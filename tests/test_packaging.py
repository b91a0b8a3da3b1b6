"""The command finds its configuration from a wheel, from a module, and from any working directory."""

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

import robustfl_bench
from robustfl_bench.commands.docs import guides
from robustfl_bench.runner.config.options import CONF
from robustfl_bench.runner.store import kept
from tests import installed
from tests.installed import ROOT

PACKAGE = Path(robustfl_bench.__file__).parent
TINY = ("rounds=1", "num_clients=10", "model.hidden=[4]")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatchling.build", reason="hatchling, which builds the wheel, is not installed")
    return installed.wheel(tmp_path_factory.mktemp("wheel"))


def test_a_wheel_carries_options_and_published_numbers_and_nothing_of_the_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    wanted = {f"robustfl_bench/conf/{path.relative_to(CONF)}" for path in CONF.rglob("*.yaml")}
    papers = [path.name for path in (PACKAGE / "read" / "papers").iterdir() if path.suffix in (".csv", ".yaml", ".md")]
    assert len(papers) > 10
    wanted |= {f"robustfl_bench/read/papers/{name}" for name in papers}
    wanted |= {"robustfl_bench/parts/datasets/digits.csv.gz", "robustfl_bench/parts/datasets/digits.md"}
    wanted |= {
        f"robustfl_bench/read/tables/html/{name}" for name in ("report.html", "tables.html", "page.css", "page.js")
    }
    wanted |= {"robustfl_bench/py.typed", "robustfl_bench/commands/templates/aggregator.py"}
    wanted |= {"hydra_plugins/robustfl_bench.py", "robustfl_bench/conf/__init__.py"}
    wanted |= {f"robustfl_bench/kept/{path.relative_to(kept.FOLDER)}" for path in kept.files()}
    assert wanted <= set(names)
    assert not [name for name in names if name.startswith(("tests/", "scripts/", "results/"))]
    licences = {name.partition(".dist-info/licenses/")[2] for name in names}
    assert {"LICENSE", "NOTICE", "robustfl_bench/parts/datasets/digits.md"} <= licences


def test_the_notice_names_the_source_of_all_published_numbers() -> None:
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    numbers = [path.name for path in (PACKAGE / "read" / "papers").glob("*.csv")]
    assert len(numbers) > 3 and [name for name in numbers if not re.search(rf"^ +{name} +\w", notice, re.M)] == []


def test_the_page_of_a_package_index_has_no_dead_link(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    page = archive.read(name).decode().partition("\n\n")[2]
    links = re.findall(r"\]\((.*?)\)", page)
    assert page.startswith("# robustfl_bench") and links and all(link.startswith("https://") for link in links)
    readme = (ROOT / "README.md").read_text()
    here = [link for link in re.findall(r"\]\((.*?)\)", readme) if "://" not in link]
    assert here and all((ROOT / link.partition("#")[0]).exists() for link in here)
    assert [line for line in page.splitlines() if line.startswith("## ")] == re.findall(r"^## .*$", readme, re.M)


def test_versions_are_the_same_wherever_they_are_said() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    versions = {citation["version"], citation["preferred-citation"]["version"]}
    assert versions == {robustfl_bench.__version__} and citation["license"] == project["license"]
    dated = f"## [{citation['version']}] - {citation['date-released']}"
    assert dated in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    kinds = [text.rpartition(" :: ")[2] for text in project["classifiers"] if ":: Python :: 3." in text]
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    assert workflow["jobs"]["check"]["strategy"]["matrix"]["python"] == kinds
    release = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
    assert release["jobs"]["install"]["strategy"]["matrix"]["python"] == kinds
    low, high = (re.escape(version) for version in (kinds[0], f"3.{int(kinds[-1].partition('.')[2]) + 1}"))
    assert re.fullmatch(f">={low},<{high}", project["requires-python"])
    assert f"Python {kinds[0]} to {kinds[-1]}" in (ROOT / "README.md").read_text()


def test_a_release_is_published_only_after_its_wheel_was_installed_and_without_a_token() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())["jobs"]
    assert jobs["publish"]["needs"] == "install" and jobs["install"]["needs"] == "build"
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    lines = "\n".join(step.get("run", "") for job in jobs.values() for step in job["steps"])
    assert "twine check --strict" in lines and "secrets." not in str(jobs)
    for script in re.findall(r"^scripts/\S+", lines, re.MULTILINE):
        assert os.access(ROOT / script, os.X_OK)


def test_the_recipes_of_containers_copy_what_a_wheel_is_built_of() -> None:
    docker, apptainer = (ROOT / "Dockerfile").read_text(), (ROOT / "robustfl_bench.def").read_text()
    known = {"FROM", "COPY", "RUN", "ENV", "WORKDIR", "ENTRYPOINT"}
    assert {line.split()[0] for line in docker.splitlines() if not line.startswith("#")} == known
    sections = set(re.findall(r"^%(\w+)$", apptainer, re.MULTILINE))
    assert sections == {"files", "post", "environment", "runscript"}
    copied = dict(re.findall(r"^    (\S+) (/source/\S+)$", apptainer, re.MULTILINE))
    assert all((ROOT / name).exists() and place == f"/source/{name}" for name, place in copied.items())
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {
        *build["force-include"],
        "robustfl_bench",
        "results",
        "pyproject.toml",
        "constraints.txt",
        "LICENSE",
        "NOTICE",
    }
    assert {name.partition("/")[0] for name in needed} == set(copied)
    images = [
        re.search(pattern, text, re.MULTILINE)
        for pattern, text in ((r"^FROM (\S+)$", docker), (r"^From: (\S+)$", apptainer))
    ]
    assert images[0] and images[1] and images[0][1] == images[1][1]


def test_the_guides_are_files_of_a_checkout_and_of_a_wheel(wheel: Path) -> None:
    assert all(file.is_file() for file in guides().values())
    names = zipfile.ZipFile(wheel).namelist()
    assert {f"robustfl_bench/docs/{file.relative_to(ROOT)}" for file in guides().values()} <= set(names)


def test_the_command_runs_from_an_unpacked_wheel_in_any_folder(wheel: Path, tmp_path: Path) -> None:
    site, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    zipfile.ZipFile(wheel).extractall(site)
    elsewhere.mkdir()
    command = [sys.executable, "-m", "robustfl_bench", *TINY]
    environment = os.environ | {"PYTHONPATH": str(site)}
    done = subprocess.run(command, cwd=elsewhere, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("result: accuracy")
    assert (elsewhere / "results" / "runs").is_dir()


def test_the_console_scripts_answer(tmp_path: Path) -> None:
    folder = Path(sys.executable).parent
    if not (folder / "robustfl-bench").exists():
        pytest.skip("the package is not installed in this environment")
    for script in ("robustfl-bench", "robustfl-results", "robustfl-data", "robustfl-ring"):
        done = subprocess.run([folder / script, "--help"], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0
        assert "robustfl" in done.stdout
