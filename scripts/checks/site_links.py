"""Does every link of a built site lead to a file and a heading of it, and does no page load anything from a network?

python scripts/checks/site_links.py build/site
"""

import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"script", "img", "iframe", "source", "video", "audio", "object"}
"""The elements whose address a browser loads without being asked; so are those of a stylesheet or an icon."""


class Links(HTMLParser):
    """The addresses in a page, each with whether the browser loads it, and the names of its places."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: list[tuple[str, bool]] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        of = dict(attrs)
        self.places |= {name for key in ("id", "name") if (name := of.get(key))}
        loaded = tag in LOADED or (tag == "link" and of.get("rel") not in ("canonical", "prev", "next", "edit"))
        self.addresses += [(address, loaded) for key in ("href", "src", "data") if (address := of.get(key))]


@cache
def links(page: Path) -> Links:
    """The links of a page."""
    return Links(page.read_text(encoding="utf-8"))


def problems(site: Path) -> Iterator[str]:
    """What is wrong, a line each."""
    pages = sorted(site.rglob("*.html"))
    if not pages:
        yield f"{site} has no page"
    for page in pages:
        if page.name == "404.html":  # its links begin at the root of a host
            continue
        for address, loaded in links(page).addresses:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                if loaded and parts.scheme != "data":
                    yield f"{page.relative_to(site)} loads {address}"
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page.resolve()
            if not target.is_file():
                yield f"{page.relative_to(site)}: no file {address}"
            elif parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in links(target).places:
                yield f"{page.relative_to(site)}: no place {address}"


if __name__ == "__main__":
    found = sorted(set(problems(Path(sys.argv[1]))))
    print("\n".join(found) or "every link leads to a place, and nothing comes from a network")
    sys.exit(bool(found))
