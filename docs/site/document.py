"""A document in Markdown, read once: its HTML, and its sections for whoever lists or searches them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from markdown_it import MarkdownIt
from markdown_it.token import Token
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.lexers.special import TextLexer
from pygments.util import ClassNotFound

FORMAT = HtmlFormatter(nowrap=True)


@dataclass
class Section:
    """What stands below a heading; its anchor is spelled as the usual renderers of Markdown do."""

    level: int
    title: str
    anchor: str
    text: str = ""


@dataclass(frozen=True)
class Document:
    html: str
    sections: list[Section]

    @property
    def title(self) -> str:
        return self.sections[0].title if self.sections else "Untitled"

    @property
    def anchors(self) -> set[str]:
        return {section.anchor for section in self.sections}


def read(text: str) -> Document:
    tokens = parse(text)
    sections: list[Section] = []
    for place, token in enumerate(tokens):
        if token.type == "heading_open":
            sections.append(_section(int(token.tag[1:]), plain(tokens[place + 1]), sections))
            token.attrSet("id", sections[-1].anchor)
        elif sections and token.content and tokens[place - 1].type != "heading_open":
            sections[-1].text += plain(token) + " "
    return Document(_MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {}), sections)


def parse(text: str) -> list[Token]:
    return _MARKDOWN.parse(text)


def plain(token: Token) -> str:
    """What a reader sees of it."""
    if not token.children:
        return token.content
    return "".join(" " if child.type == "softbreak" else child.content for child in token.children if child.type != "html_inline")


def coloured(code: str, language: str, _attributes: str = "") -> str:
    try:
        lexer = get_lexer_by_name(language)
    except ClassNotFound:
        lexer = TextLexer()
    return highlight(code, lexer, FORMAT)


def _section(level: int, title: str, before: Sequence[Section]) -> Section:
    anchor = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
    again = sum(re.fullmatch(rf"{re.escape(anchor)}(-\d+)?", each.anchor) is not None for each in before)
    return Section(level, title, f"{anchor}-{again}" if again else anchor)


_MARKDOWN = MarkdownIt("commonmark", {"html": True, "highlight": coloured}).enable("table")
_MARKDOWN.add_render_rule("table_open", lambda *_: '<div class="wide"><table>')
_MARKDOWN.add_render_rule("table_close", lambda *_: "</table></div>")
