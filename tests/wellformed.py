"""Whether a page is what it should be: well formed, with nothing that runs and nothing that is fetched."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

_VOID = {"meta", "link", "br", "img", "input", "hr"}
_FETCHES = {"src", "href", "srcset", "action", "data", "poster", "xlink:href", "background"}


class _Tags(HTMLParser):
    """Sees that each tag is closed by its own."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.problems: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._attributes(tag, attrs)
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._attributes(tag, attrs)

    def _attributes(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        for name, value in attrs:
            if name.startswith("on") or name in _FETCHES or "url(" in (value or ""):
                self.problems.append(f"<{tag} {name}={value!r}>")

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"</{tag}> closes nothing")

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.texts.append(data)


def check_page(page: str) -> str:
    """Raises where it is not; the text that a reader sees."""
    tags = _Tags()
    tags.feed(page)
    tags.close()
    assert tags.problems == []
    assert tags.open == []
    assert not tags.seen & {"script", "img", "iframe", "object", "embed", "link", "form", "base", "a"}
    assert "@import" not in page
    # Stricter than a browser: our bodies have no void elements, so that they are XML, drawings and all.
    body = page[page.index("<body>") : page.index("</body>") + len("</body>")]
    root = ElementTree.fromstring(body)  # noqa: S314  (our own page)
    for drawing in root.iter("svg"):
        if drawing.get("role") == "img":
            assert drawing.findtext("title")
            assert drawing.findtext("desc")
    assert not [one for one in root.iter("path") if re.search("nan|inf", one.get("d", ""), re.IGNORECASE)]
    return " ".join(" ".join(tags.texts).split())
