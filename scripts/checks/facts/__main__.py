"""The command ``python -m scripts.checks.facts``: exit status 1, and a line for each sentence that is wrong."""

import sys

from scripts.checks.facts import facts

if __name__ == "__main__":
    known = [*facts()]
    wrong = [problem for page, fact in known if (problem := fact.problem(page)) is not None]
    pages = {page for page, _ in known}
    print("\n".join(wrong) if wrong else f"{len(known)} sentences on {len(pages)} pages are as the runs say")
    sys.exit(bool(wrong))
