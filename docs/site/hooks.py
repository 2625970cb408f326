"""What the site needs beyond mkdocs.yml: the project's own layout, a navigation read from docs/README.md, links to sources."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from properdocs.config.defaults import ProperDocsConfig
from properdocs.plugins import event_priority
from properdocs.structure.files import File, Files
from properdocs.structure.pages import Page
from pygments.formatters import HtmlFormatter

_HEADING_OR_ROW = re.compile(r"^## (.+)|^\|.*?\[(.+?)\]\(([^)#]+\.md)\)", re.MULTILINE)
_LINK = re.compile(r"(?<=\]\()[^)\s#]+")
_LIGHT, _DARK = (HtmlFormatter(style=style).get_style_defs(".codehilite") for style in ("default", "github-dark"))  # type: ignore[no-untyped-call]


def on_config(config: ProperDocsConfig) -> None:
    config.mdx_configs.setdefault("toc", {})["slugify"] = _anchor
    config.nav = [{"rowq": "README.md"}, {"Documents": "docs/README.md"}, *_parts(_root(config))]


def on_files(files: Files, config: ProperDocsConfig) -> Files:
    """Every file is where it is in the project, so that links between documents mean the same here and on GitHub."""
    placed = [File.generated(config, path.name, abs_src_path=str(path)) for path in sorted(_root(config).glob("*.md"))]
    for file in files:
        is_document = file.src_dir == config.docs_dir
        placed.append(File.generated(config, f"docs/{file.src_uri}", abs_src_path=str(file.abs_src_path)) if is_document else file)
    colours = f"{_LIGHT}\n@media (prefers-color-scheme: dark) {{\n{_DARK}\n}}\n"
    return Files([*placed, File.generated(config, "docs/site/code.css", content=colours)])


def on_page_markdown(markdown: str, *, page: Page, config: ProperDocsConfig, files: Files) -> str:
    """A link to what the project has and the site has not, such as a source, leads to the repository. A link that leads nowhere stays as
    it is: the strict build refuses it."""

    def lead(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page.file.src_uri), link[0]))
        place = _root(config) / path
        if path.startswith(("..", "/")) or files.get_file_from_path(path) or not place.exists():
            return link[0]
        return f"{config.repo_url}/{'tree' if place.is_dir() else 'blob'}/main/{path}"

    return _LINK.sub(lead, markdown)


@event_priority(-100)
def on_post_build(config: ProperDocsConfig) -> None:
    """A page opened from the disk may not fetch the index that the search plugin has written, but may load it as a script."""
    index = Path(config.site_dir, "search", "search_index.json")
    index.with_suffix(".js").write_text(f"const search_index = {index.read_text(encoding='utf-8')};\n", encoding="utf-8")


def _root(config: ProperDocsConfig) -> Path:
    return Path(config.docs_dir).parent


def _parts(root: Path) -> list[dict[str, list[Any]]]:
    """A part for each heading of docs/README.md, with the first page that each row names; below the README of a folder, its own pages."""
    parts: list[dict[str, list[Any]]] = []
    for heading, title, path in _rows(root, "docs/README.md"):
        if heading:
            parts.append({heading: []})
        else:
            below = [path, *(page for _, _, page in _rows(root, path) if page)] if path.endswith("/README.md") else path
            next(iter(parts[-1].values())).append({title: below})
    return parts


def _rows(root: Path, index: str) -> list[tuple[str, str, str]]:
    """(heading, "", "") or ("", title, page)."""
    found = _HEADING_OR_ROW.findall((root / index).read_text(encoding="utf-8"))
    return [(heading, title, path and posixpath.normpath(posixpath.join(posixpath.dirname(index), path))) for heading, title, path in found]


def _anchor(heading: str, separator: str) -> str:
    """As GitHub spells it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", separator)
