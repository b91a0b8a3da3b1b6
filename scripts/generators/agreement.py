"""Writes how well each paper is reproduced, with the verdicts on its claims, from the runs that are kept in results/:
results/<paper>/agreement.md, and the overview in results/README.md; and the page of each description of tables there,
results/<paper>/<name>.yaml. Run: make agreement"""

import re
from pathlib import Path

from robustfl_bench.runs import archive
from robustfl_bench.tables import scorecard, sheets
from robustfl_bench.tables.described import papers

RESULTS = Path(__file__).parents[2] / "results"
README = RESULTS / "README.md"
BLOCK = re.compile(r"(<!-- made by `make agreement` -->\n).*?(<!-- end -->)", re.DOTALL)


def pages() -> dict[Path, str]:
    """What each file should hold."""
    runs = archive.kept()
    scores = scorecard.scored(papers(), runs)
    made = {RESULTS / score.name / "agreement.md": sheets.markdown(scorecard.page(score)) for score in scores}
    for path in RESULTS.glob("*/*.yaml"):
        made[path.with_suffix(".md")] = sheets.markdown(scorecard.pages_of(runs, str(path)))
    block = sheets.markdown([scorecard.overview(scores)])
    readme = BLOCK.sub(lambda found: f"{found[1]}\n{block}\n{found[2]}", README.read_text(encoding="utf-8"))
    return made | {README: readme}


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
