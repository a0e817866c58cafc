"""Check a built site: every internal link and anchor exists, and no page loads anything from the network.

`python tools/site.py docs/_build/html`
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src"}


class Page(HTMLParser):
    """ids: its anchors; links: where it points; loads: what a browser fetches with it."""

    def __init__(self, text: str):
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = {k: v or "" for k, v in attrs}
        self.ids |= {found[k] for k in ("id", "name") if k in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        elif tag == "link" and found.get("rel") not in (
            "canonical",
            "search",
            "next",
            "prev",
            "index",
            "genindex",
            "top",
        ):
            self.loads.append(found.get("href", ""))
        elif tag in LOADS and LOADS[tag] in found:
            self.loads.append(found[LOADS[tag]])


def check(root: Path) -> list[str]:
    """What is wrong, one sentence each."""
    pages = {f.resolve(): Page(f.read_text(errors="replace")) for f in sorted(root.rglob("*.html"))}
    wrong = []
    for file, page in pages.items():
        name = file.relative_to(root.resolve())
        for url in page.loads:
            if re.match(r"(https?:)?//", url):
                wrong.append(f"{name} loads {url} from the network")
        for url in {*page.links, *page.loads}:
            parts = urlsplit(url)
            if parts.scheme or parts.netloc or url.startswith("data:"):
                continue
            there = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            if there.is_dir():
                there /= "index.html"
            if not there.exists():
                wrong.append(f"{name} links to {url}, which does not exist")
            elif parts.fragment and there in pages and unquote(parts.fragment) not in pages[there].ids:
                wrong.append(f"{name} links to {url}, which has no such anchor")
    for file in root.rglob("*.css"):
        if found := re.findall(
            r"url\(['\"]?((?:https?:)?//[^)'\"]+)|@import\s+['\"](https?:[^'\"]+)", file.read_text()
        ):
            wrong.append(f"{file.relative_to(root)} loads {found[0]} from the network")
    return wrong


if __name__ == "__main__":
    found = check(Path(sys.argv[1]))
    print("\n".join(found) or f"{sys.argv[1]}: all links and anchors exist, nothing is loaded from the network")
    sys.exit(1 if found else 0)
