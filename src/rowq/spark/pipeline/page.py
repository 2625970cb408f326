"""A report as one self-contained HTML page: no scripts, fonts or images from elsewhere; light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.resources import files

import msgspec

from rowq.spark.pipeline.chart import legend


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """One section: a sentence, a plot, and the same figures as a table."""

    title: str
    sentence: str
    plot: str = ""
    """SVG, made by `chart`."""
    names: Sequence[str] = ()
    """The names of the plot's colours."""
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    left_out: int = 0
    """How many rows the page omits."""

    @property
    def is_wide(self) -> bool:
        """Whether the table needs the full width: next to the plot its words would break."""
        texts = sum(not right for right in _numeric(self)) if self.rows else 0
        return len(self.columns) > 6 or texts > 2


class Page(msgspec.Struct, frozen=True, kw_only=True):
    title: str
    facts: Sequence[tuple[str, str]]
    """Key figures: name and value."""
    sections: Sequence[Section]
    footer: str


def render(page: Page) -> str:
    style = files("rowq.spark.pipeline").joinpath("page.css").read_text(encoding="utf-8")
    facts = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in page.facts)
    links = "".join(f'<li><a href="#{_anchor(section)}">{escape(section.title)}</a></li>' for section in page.sections)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<meta name="color-scheme" content="light dark">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{escape(page.title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<header>\n<h1>{escape(page.title)}</h1>\n"
        f'<dl class="facts">{facts}</dl>\n<nav aria-label="Sections"><ul>{links}</ul></nav>\n</header>\n<main>\n'
        + "\n".join(map(_section, page.sections))
        + f"\n</main>\n<footer>{escape(page.footer)}</footer>\n</body>\n</html>\n"
    )


def _section(section: Section) -> str:
    anchor = _anchor(section)
    place = "below" if section.is_wide else "beside"
    plot = f"<figure>{section.plot}{legend(section.names)}</figure>" if section.plot else ""
    return (
        f'<section id="{anchor}" aria-labelledby="{anchor}-title">\n<h2 id="{anchor}-title">{escape(section.title)}</h2>\n'
        f'<p>{escape(section.sentence)}</p>\n<div class="{place}">{plot}{_table(section)}</div>\n</section>'
    )


def _table(section: Section) -> str:
    if not section.rows:
        return '<p class="nothing">No data in this period.</p>'
    numeric = _numeric(section)
    head = "".join(f'<th scope="col"{_align(right)}>{escape(name)}</th>' for name, right in zip(section.columns, numeric, strict=True))
    body = "".join(f"<tr>{_cells(row, numeric)}</tr>" for row in section.rows)
    more = f'<p class="nothing">and {section.left_out:,} more rows</p>' if section.left_out else ""
    caption = f"<caption>{escape(section.title)}</caption>"
    return f'<div class="table" tabindex="0"><table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}</div>'


def _numeric(section: Section) -> list[bool]:
    """Which columns contain only numbers."""
    return [all(_is_number(row[at]) for row in section.rows) for at in range(len(section.columns))]


def _cells(row: Sequence[str], numeric: Sequence[bool]) -> str:
    first, *others = zip(row, numeric, strict=True)
    return f'<th scope="row"{_align(first[1])}>{escape(first[0])}</th>' + "".join(
        f"<td{_align(right)}>{escape(cell)}</td>" for cell, right in others
    )


def _align(right: bool) -> str:
    return ' class="number"' if right else ""


def _is_number(cell: str) -> bool:
    return not cell or (cell[0].isdigit() and ":" not in cell and "-" not in cell)


def _anchor(section: Section) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in section.title.lower())
