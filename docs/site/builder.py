"""Builds the site: every document, and whatever one links to. A folder becomes a list, a source a page of its own, a picture is copied."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
from collections import deque
from collections.abc import Sequence
from functools import cache, partial
from html import escape, unescape
from pathlib import Path, PurePosixPath
from urllib.parse import quote, unquote, urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from pygments.formatters import HtmlFormatter

from docs.site.contents import START, contents, in_order
from docs.site.document import Document, Section, coloured, read

HERE = Path(__file__).parent
COPIED = {".png", ".svg", ".html"}
_REFERENCE = re.compile(r'\b(href|src|srcset)="([^"]+)"')
_LIGHT, _DARK = (HtmlFormatter(style=style).get_style_defs("pre") for style in ("default", "github-dark"))  # type: ignore[no-untyped-call]
_PAGE = Environment(loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined).get_template("page.html")


class Builder:
    """One run. What it finds wrong is in `faults`: links that lead nowhere."""

    def __init__(self, root: Path, site: Path) -> None:
        self.faults: list[str] = []
        self.documents: dict[PurePosixPath, Document] = {}
        self._root, self._site = root, site
        self._contents = contents(root)
        order = in_order(self._contents)
        self._around = {entry.path: around for entry, *around in zip(order, [None, *order], [*order[1:], None], strict=False)}
        found = sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md")])
        self._ahead = deque(PurePosixPath(each.relative_to(root)) for each in found)
        self._wanted = set(self._ahead)
        self._named = set(self._ahead)
        """What documents link to. Only this is coloured: with all that stands in folders, too, it would take most of the time."""
        self._anchored: list[tuple[PurePosixPath, PurePosixPath, str]] = []

    def run(self) -> None:
        shutil.rmtree(self._site, ignore_errors=True)
        while self._ahead:
            self._make(self._ahead.popleft())
        for page, target, anchor in self._anchored:
            if target not in self.documents or anchor not in self.documents[target].anchors:
                self.faults.append(f"{page} links to {target}#{anchor}, and there is no such heading")
        for name in ("site.css", "site.js"):
            shutil.copy(HERE / name, self._site)
        colours = f"{_LIGHT}\n@media (prefers-color-scheme: dark) {{\n{_DARK}\n}}\n"
        (self._site / "code.css").write_text(colours, encoding="utf-8")
        sections = [
            {"url": f"{self.address(path)}#{section.anchor}", "page": document.title, "title": section.title, "text": section.text}
            for path, document in self.documents.items()
            for section in document.sections
        ]
        (self._site / "sections.js").write_text(f"const sections = {json.dumps(sections, ensure_ascii=False)};\n", encoding="utf-8")

    def _make(self, path: PurePosixPath) -> None:
        file = self._root / path
        if file.is_dir():
            self._page(path, f"{path}/", f"<h1>{escape(str(path))}/</h1>{self._linked(path, _listed(file))}")
        elif path.suffix == ".md":
            document = self.documents[path] = read(file.read_text(encoding="utf-8"))
            self._page(path, document.title, self._linked(path, document.html), document.sections)
        elif path.suffix in COPIED:
            self._place(path).write_bytes(file.read_bytes())
        else:
            text = file.read_text(encoding="utf-8", errors="replace")
            code = coloured(text, path.suffix[1:]) if path in self._named else escape(text)
            self._page(path, str(path), f"<h1>{escape(str(path))}</h1><pre><code>{code}</code></pre>")

    def _page(self, path: PurePosixPath, title: str, body: str, sections: Sequence[Section] = ()) -> None:
        before, after = self._around.get(path, (None, None))
        page = {"path": path, "title": title, "body": body, "sections": sections, "before": before, "after": after}
        text = _PAGE.render(page, contents=self._contents, start=START, here=partial(self._way, path))
        self._place(path).write_text(text, encoding="utf-8")

    def _linked(self, path: PurePosixPath, text: str) -> str:
        """The links of a page, as they are in the site."""

        def link(reference: re.Match[str]) -> str:
            url = urlsplit(unescape(reference[2]))
            if url.scheme or url.netloc:
                return reference[0]
            target = self._target(path, unquote(url.path))
            if url.fragment:
                self._anchored.append((path, target, url.fragment))
            return f'{reference[1]}="{self._way(path, target)}{"#" if url.fragment else ""}{url.fragment}"'

        return _REFERENCE.sub(link, text)

    def _way(self, page: PurePosixPath, target: PurePosixPath | str) -> str:
        """From a page to a file of the project, or to one of the site itself."""
        to = self.address(target) if isinstance(target, PurePosixPath) else target
        return "../" * (len(self.address(page).parts) - 1) + quote(str(to))

    def _target(self, page: PurePosixPath, link: str) -> PurePosixPath:
        """What a link means. It becomes part of the site."""
        target = PurePosixPath(os.path.normpath(page.parent / link)) if link else page
        if (self._root / target / "README.md").is_file():
            target /= "README.md"
        if target.is_absolute() or ".." in target.parts or not (self._root / target).exists():
            self.faults.append(f"{page} links to {link}, and there is no {target}")
        elif target not in self._wanted:
            self._wanted.add(target)
            self._ahead.append(target)
        if page.suffix == ".md":
            self._named.add(target)
        return target

    @cache  # noqa: B019  # a builder lives for one run
    def address(self, path: PurePosixPath) -> PurePosixPath:
        """Where a file or a folder of the project is in the site."""
        if (self._root / path).is_dir():
            return path / "index.html"
        if path.suffix == ".md":
            return path.with_name("index.html") if path.stem == "README" else path.with_suffix(".html")
        return path if path.suffix in COPIED else path.with_name(f"{path.name}.html")

    def _place(self, path: PurePosixPath) -> Path:
        place = self._site / self.address(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        return place


def _listed(folder: Path) -> str:
    """What is in a folder, with the sentence that opens a module."""
    rows = ""
    for each in sorted(folder.iterdir()):
        if not each.name.startswith((".", "__pycache__")):
            opening = (ast.get_docstring(ast.parse(each.read_bytes())) or "") if each.suffix == ".py" else ""
            link = f'<a href="{quote(f"{folder.name}/{each.name}")}">{escape(each.name)}</a>'
            rows += f"<tr><td>{link}</td><td>{escape(opening.partition(chr(10))[0])}</td></tr>"
    return f'<div class="wide"><table>{rows}</table></div>'
