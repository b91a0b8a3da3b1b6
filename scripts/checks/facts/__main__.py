"""The command ``python -m scripts.checks.facts``: exit status 1, and a line for each sentence that is wrong; with
``--write`` it first puts the computed numbers into the pages. What words say of them is to be read again then."""

import argparse
import sys

from scripts.checks.facts import facts
from scripts.checks.facts.fact import ROOT

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m scripts.checks.facts", description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the computed numbers into the pages")
    write = parser.parse_args().write
    known = [*facts()]
    wrong = []
    for page, fact in known:
        problem = fact.problem(page)
        if problem is not None and write:
            path = ROOT / page
            path.write_text(fact.mended(path.read_text(encoding="utf-8")), encoding="utf-8")
            print(f"written: {problem}")
            problem = fact.problem(page)
        wrong += [problem] if problem is not None else []
    pages = {page for page, _ in known}
    print("\n".join(wrong) if wrong else f"{len(known)} sentences on {len(pages)} pages are as the runs say")
    sys.exit(bool(wrong))
