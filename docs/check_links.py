"""Does every link of the built site lead to a page, and to an anchor on it?

python docs/check_links.py site
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class _Page(HTMLParser):
    """What a page links to, and what on it can be linked to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect links and anchors."""
        for name, value in attrs:
            if name in ("href", "src") and value and tag != "base":
                self.links.append(value)
                if name == "src" or (tag == "link" and ("rel", "stylesheet") in attrs):
                    self.loaded.append(value)
            if name in ("id", "name") and value:
                self.anchors.add(value)


def broken_links(site: Path) -> list[str]:
    """Links within the site that lead nowhere, as "page: link", and files of other hosts that a page would load."""
    pages = {path: _Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    broken = []
    for path, page in pages.items():
        if path.name == "404.html":  # its links start at the server's root
            continue
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.loaded and parts.scheme != "data":
                    broken.append(f"{path.relative_to(site)}: {link}")
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            anchor = unquote(parts.fragment)
            missing = anchor and target in pages and anchor not in pages[target].anchors and not anchor.startswith("__")
            if not target.exists() or missing:
                broken.append(f"{path.relative_to(site)}: {link}")
    return broken


if __name__ == "__main__":
    folder = Path(sys.argv[1]).resolve()
    found = broken_links(folder)
    print(*found, sep="\n")
    count = len(list(folder.rglob("*.html")))
    print(f"site: {count} pages, {len(found)} broken links")
    sys.exit(bool(found) or count < 30)
