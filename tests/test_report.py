"""The pages: what is in them, and what they do in a real browser, in light and dark and on a phone."""

import base64
import html
import json
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from robustfl_bench import __version__
from robustfl_bench.read.pages.report import report
from robustfl_bench.read.runs import archive, commands
from robustfl_bench.runner.config import compose
from robustfl_bench.runner.store import folders
from tests import test_results
from tests.conftest import run_cli
from tests.test_paper_tables import make_run

KEPT = Path(__file__).parent.parent / "results" / "boba" / "runs.csv"
EVIL = "<img src=x onerror=\"document.title='owned'\">"
BROWSER = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
           "--disable-component-update", "--disable-sync")  # fmt: skip


def sweep(folder: Path, **changed: Any) -> None:
    """Three rules, two attacks, three seeds; krum is the best under ipm, boba under lie."""
    for seed in range(3):
        for attack, best in (("ipm", "krum"), ("lie", "boba")):
            for rule in ("average", "krum", "boba"):
                accuracy = 0.9 if rule == best else 0.8 if rule != "average" else 0.1
                test_results.make_run(folder, rule, attack, seed, accuracy + 0.01 * seed, **changed)


def page_of(capsys: pytest.CaptureFixture[str], folder: Path, *arguments: str | Path) -> str:
    output = folder / "report.html"
    code, out, err = run_cli(capsys, "report", "--results-dir", folder, "--output", output, *arguments)
    assert (code, out, err) == (0, f"{output}\n", "")
    return output.read_text()


def data_of(page: str) -> Any:
    """What the page's script shows of runs."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert found
    return json.loads(found[1])


def test_a_cell_leads_to_its_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sweep(tmp_path)
    page = page_of(capsys, tmp_path)
    (section,) = (data := data_of(page))["sections"]
    (cell,) = [cell for cell in section["cells"] if cell["title"] == "BOBA / LIE"]
    assert cell["numbers"] == ["90.0", "91.0", "92.0"]
    runs = [section["runs"][place] for place in cell["runs"]]
    assert [run["seed"] for run in runs] == ["0", "1", "2"] and all("-boba-lie-" in run["name"] for run in runs)
    settings = dict(data["pairs"][place] for place in (*runs[0]["settings"], *section["settings"]))
    assert (
        settings["aggregator"] == "boba" and settings["num_clients"] == "10" and settings["model.hidden"] == "[20,20]"
    )
    assert "91.0" in page and "±2.5 n=3" in page, "Student's t of 3 numbers with sd 1: 4.30 / sqrt(3)"


def test_a_report_has_a_title_differences_and_its_tables_as_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep(tmp_path)
    page = page_of(capsys, tmp_path, "--title", "Mine & theirs", "--versus", "krum", "--labels", "boba=Ours")
    assert "<h1>Mine &amp; theirs</h1>" in page and f"robustfl_bench {__version__}, " in page
    assert "each row less Krum, with its paired 95% interval" in page
    assert re.search(r'<th scope="row">Ours</th>\s*<td><b>\N{MINUS SIGN}10.0 \[', page)
    files = {
        name: base64.b64decode(content).decode()
        for name, content in re.findall(r'<a download="(.+?)" href="data:text/plain;charset=utf-8;base64,(.+?)"', page)
    }
    asked = ("table", "--results-dir", tmp_path, "--format")
    forms = {"final_accuracy.csv": ("csv",), "final_accuracy.tex": ("latex", "--labels", "boba=Ours")}
    made = {name: run_cli(capsys, *asked, *form)[1] for name, form in forms.items()}
    assert files == made and "Ours & " in made["final_accuracy.tex"]


def test_runs_that_cannot_be_averaged_have_sections_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for lr in (0.1, 0.01):
        for rule in ("krum", "boba"):
            test_results.make_run(tmp_path, rule, lr=lr, batch_size=8)
    page = page_of(capsys, tmp_path)
    assert re.findall(r"<h2>(.*)</h2>", page) == ["learning rate 0.01", "learning rate 0.1"]
    made = [html.unescape(words) for words in re.findall(r"<code>(robustfl-results .*?)</code>", page)]
    for words in made:
        code, _, err = run_cli(capsys, *shlex.split(words)[1:], "--results-dir", tmp_path)
        assert (code, err) == (0, ""), "the command of a section makes its table"
    assert len(made) == 2
    assert page_of(capsys, tmp_path, "--where", "lr=0.1").count("<section") == 1


def test_a_baseline_stays_beside_a_rule_that_was_run_with_several_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Krum selects two updates or three; the average has no such option, and multi-Krum was run with one value of
    it."""
    for attack in ("ipm", "lie"):
        for selected in (2, 3):
            make_run(tmp_path, "krum", attack, aggregator__num_selected=selected)
        make_run(tmp_path, "mkrum", attack, aggregator__num_selected=4)
        make_run(tmp_path, "average", attack)
    page = page_of(capsys, tmp_path)
    assert re.findall(r"<h2>(.*)</h2>", page) == ["num selected 2", "num selected 3"]
    for section in data_of(page)["sections"]:
        rows = {cell["title"].split(" / ")[0] for cell in section["cells"] if cell["runs"]}
        assert rows == {"average", "Krum", "Multi-Krum"}
    _, _, err = run_cli(capsys, "table", "--results-dir", tmp_path)
    _, _, advice = err.partition("add for example ")
    code, out, _ = run_cli(capsys, "table", "--results-dir", tmp_path, *shlex.split(advice))
    assert code == 0 and {line.split()[0] for line in out.splitlines() if line} >= {"average", "krum", "mkrum"}


def test_what_is_not_finished_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    test_results.make_run(tmp_path, "krum")
    test_results.make_run(tmp_path, "boba", status="failed", error="RuntimeError: <b>")
    test_results.make_run(tmp_path, "average", status="diverged", error="the loss is not finite")
    (test_results.make_run(tmp_path, "mkrum") / "config.yaml").write_text("{")
    page = page_of(capsys, tmp_path)
    for state in ("finished", "failed", "diverged", "damaged"):
        assert f"<li><b>1</b> {state}</li>" in page
    assert "RuntimeError: &lt;b&gt;" in page and "config.yaml is damaged" in page


def test_kept_runs_have_a_page_without_curves(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    output = tmp_path / "kept.html"
    assert run_cli(capsys, "report", "--from", KEPT, "--output", output) == (0, f"{output}\n", "")
    page = output.read_text()
    assert "92.6" in page and '<div class="panels">' not in page
    for run in data_of(page)["sections"][0]["runs"][::20]:
        made = compose.resolve(shlex.split(run["command"])[1:])
        assert run["name"].endswith(made.run_id), "the command makes the run that was kept"


def test_a_run_of_other_options_than_todays_has_no_command() -> None:
    (run, *_) = archive.read(str(KEPT)).to_dict("records")
    assert commands.again(run) and not commands.again({**run, "run_id": "0" * 12})
    assert not commands.again({**run, "aggregator": "of_the_past"})


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["--output", "report.pdf"], 2, "must end in .html"),
        (["--output", "/dev/null/report.html"], 2, "cannot write /dev/null/report.html"),
        (["--rows", "agregator"], 2, "did you mean aggregator"),
        (["--value", "final_acuracy"], 2, "did you mean final_accuracy"),
        (["--where", "attack=imp"], 3, "no run has attack=imp"),
    ],
)
def test_bad_arguments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, told: str
) -> None:
    test_results.make_run(tmp_path)
    found, out, err = run_cli(capsys, "report", *arguments, "--results-dir", tmp_path)
    assert (found, out, err.count("\n")) == (code, "", 1) and told in err


# --- in a browser --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Browser:
    """A headless Chromium."""

    driver: Any

    def open(self, page: Path, width: int = 1280, scheme: str = "light") -> None:
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        self.driver.get(page.as_uri())

    def all(self, selector: str) -> list[Any]:
        return [found for found in self.driver.find_elements("css selector", selector) if found.is_displayed()]

    def words(self, selector: str) -> list[str]:
        return [found.text for found in self.all(selector)]

    def run(self, script: str) -> Any:
        return self.driver.execute_script(f"return {script}")

    @property
    def complaints(self) -> list[str]:
        """What the console says."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    @property
    def requests(self) -> list[str]:
        """The addresses that pages from files asked for; the browser's own start page is none."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        sent = [event["params"] for event in events if event["method"] == "Network.requestWillBeSent"]
        return [one["request"]["url"] for one in sent if one["documentURL"].startswith("file:")]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A Chromium that is installed, or none."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium, which drives a browser, is not installed")
    found = {name: shutil.which(name) for name in ("chromium", "chromedriver")}
    if absent := [name for name, path in found.items() if not path]:
        pytest.skip(f"{' and '.join(absent)} not installed: pages are not tried in a browser")
    options = webdriver.ChromeOptions()
    options.binary_location = found["chromium"]
    for argument in (*BROWSER, f"--user-data-dir={tmp_path_factory.mktemp('browser')}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(found["chromedriver"]))
    yield Browser(driver)
    driver.quit()


def test_a_report_is_sorted_filtered_and_opened(
    browser: Browser, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep(tmp_path)
    page_of(capsys, tmp_path)
    browser.requests  # noqa: B018  (of other pages)
    browser.open(tmp_path / "report.html")
    rows, (_, ipm, lie, _) = ".heat tbody th", browser.all(".heat .sort")
    assert browser.words(rows) == ["average", "Krum", "BOBA"]
    lie.click()
    assert browser.words(rows) == ["BOBA", "Krum", "average"]
    assert [heading.get_attribute("aria-sort") for heading in browser.all(".heat thead th")][2] == "descending"
    ipm.click()
    assert browser.words(rows) == ["Krum", "BOBA", "average"]
    ipm.click()
    assert browser.words(rows) == ["average", "BOBA", "Krum"]
    (search,) = browser.all("input[type=search]")
    search.send_keys("BOB, nothing")
    assert browser.words(rows) == ["BOBA"] and browser.words(".found") == ["2 of 5 rows"], "and its differences"
    assert {line.get_attribute("data-name") for line in browser.all(".panels .line")} == {"boba"}
    browser.all(".heat td button")[0].click()
    assert browser.words("dialog h2") == ["BOBA / IPM: 81.0 ±2.5 n=3"]
    assert browser.words("dialog summary") == ["seed 0: 80.0", "seed 1: 81.0", "seed 2: 82.0"]
    browser.all("dialog summary")[1].click()
    browser.all("dialog details details summary")[0].click()
    assert "aggregator" in browser.words("dialog dt") and "boba" in browser.words("dialog dd")
    browser.all(".close")[0].click()
    assert not browser.all("dialog")
    (legend,) = browser.all(".legend button")
    legend.click()
    assert legend.get_attribute("aria-pressed") == "true" and browser.all(".panels.chosen .line.is-chosen")
    assert not browser.complaints and browser.requests == [(tmp_path / "report.html").as_uri()]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_fits_a_phone_and_the_dark(
    browser: Browser, tmp_path: Path, capsys: pytest.CaptureFixture[str], scheme: str
) -> None:
    for attack in ("none", "ipm", "lie", "gauss", "mimic", "minmax", "minsum"):
        test_results.make_run(tmp_path, "a_rule_with_a_name_that_is_longer_than_a_phone_is_wide", attack)
    page_of(capsys, tmp_path)
    _, table, _ = run_cli(capsys, "table", "--format", "html", "--results-dir", tmp_path)
    (tmp_path / "table.html").write_text(table)
    for name in ("report.html", "table.html"):
        browser.open(tmp_path / name, width=400, scheme=scheme)
        assert browser.run("document.documentElement.scrollWidth") <= 400, "the page does not scroll sideways"
        assert browser.run("(s => s.scrollWidth > s.clientWidth)(document.querySelector('.scroll'))"), "its table does"
        ink, paper = (browser.run(f"getComputedStyle(document.body).{name}") for name in ("color", "backgroundColor"))
        lightness = [sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in (ink, paper)]
        assert (lightness[0] < 150 and lightness[1] > 700) == (scheme == "light")
        assert (lightness[0] > 650 and lightness[1] < 150) == (scheme == "dark")
        small = [button.text for button in browser.all("main button") if button.size["height"] < 44]
        assert not small, "a finger meets what it aims at"


def test_what_others_wrote_is_shown_and_not_run(
    browser: Browser, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = test_results.make_run(tmp_path, "krum", note=EVIL, metrics={EVIL.replace(" ", "_"): 1.0})
    summary = json.loads((folder / "summary.json").read_text())
    summary["choices"] |= {"aggregator": EVIL, "attack": "</script><script>document.title='owned'</script>"}
    summary |= {"command": EVIL, "processor": f"--><script>{EVIL}</script>", "versions": {EVIL: EVIL}}
    (folder / "summary.json").write_text(json.dumps(folders.seal(summary)))
    test_results.make_run(tmp_path, "boba", status="failed", error=EVIL, note=EVIL)
    page = page_of(capsys, tmp_path, "--value", "final_accuracy", "--value", EVIL.replace(" ", "_"))
    assert "<img" not in page and page.count("<script") == 2
    browser.open(tmp_path / "report.html")
    browser.all(".heat td button")[0].click()
    for summary in browser.all("dialog summary"):
        summary.click()
    assert EVIL in browser.words("dialog pre code") and f"{EVIL} {EVIL}" in browser.words("dialog dd")
    assert browser.run("document.title") != "owned" and not browser.all("img")
    assert not browser.complaints, "nothing was refused, as nothing was tried"
    browser.run(
        "document.body.appendChild(Object.assign(document.createElement('script'), {text: 'document.title=1'}))"
    )
    assert browser.run("document.title") != "1" and "Content Security Policy" in browser.complaints[0]


def test_lines_of_one_row_stay_together_when_a_table_is_sorted(
    browser: Browser, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = run_cli(capsys, "table", "boba/table2_mnist", "--from", KEPT, "--format", "html")
    (tmp_path / "table.html").write_text(out)
    browser.open(tmp_path / "table.html")
    before = [row.text for row in browser.all("tbody")]
    browser.all(".number .sort")[1].click()
    after = [row.text for row in browser.all("tbody")]
    assert sorted(after) == sorted(before) and after != before
    assert all(" measured" in text and "published" in text for text in after)
    column = [cell.text for cell in browser.all("tbody tr:first-child td:nth-child(4)")]
    numbers = [float(text.split()[0]) for text in column if not text.startswith("diverged")]
    assert numbers == sorted(numbers, reverse=True) and len(numbers) == 14
    assert column[14].startswith("diverged"), "what has no number comes last"
    assert not browser.complaints


def test_report_of_a_data_frame(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="no run can be read"):
        report(archive.read(str(KEPT)).assign(state="damaged"))
