"""A report as one self-contained HTML page: no scripts, fonts or images from elsewhere; light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

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
    facts = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in page.facts)
    links = "".join(f'<li><a href="#{_anchor(section)}">{escape(section.title)}</a></li>' for section in page.sections)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<meta name="color-scheme" content="light dark">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{escape(page.title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<header>\n<h1>{escape(page.title)}</h1>\n"
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


_STYLE = """
:root{--paper:#fbfaf8;--card:#fff;--ink:#1d2328;--soft:#5d6873;--edge:#e2dfd8;--grid:#ebe8e2;--accent:#2463a8;
--c0:#2463a8;--c1:#c2571a;--c2:#2b7a4b;--c3:#8a3f8f;--c4:#a38500;--c5:#2a8c94;--c6:#b3324d;--c7:#5d6873}
@media(prefers-color-scheme:dark){:root{--paper:#15181b;--card:#1d2125;--ink:#e7eaed;--soft:#9ba6b0;--edge:#30363c;--grid:#2a2f35;
--accent:#7fb2ea;--c0:#7fb2ea;--c1:#f0a06a;--c2:#7cc797;--c3:#d29ad6;--c4:#dcc35a;--c5:#74c9d0;--c6:#ef8fa3;--c7:#9ba6b0}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1180px;padding:2rem 1.25rem 3rem;background:var(--paper);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
h1{margin:0 0 1rem;font-size:1.75rem;letter-spacing:-.01em}
h2{margin:0;font-size:1.2rem}
.facts{display:flex;flex-wrap:wrap;gap:.75rem;margin:0 0 1rem}
.facts div{flex:1 1 8rem;padding:.75rem 1rem;background:var(--card);border:1px solid var(--edge);border-radius:8px}
.facts dt{color:var(--soft);font-size:.85rem}
.facts dd{margin:0;font-size:1.35rem;font-weight:600;font-variant-numeric:tabular-nums}
nav ul,.legend{display:flex;flex-wrap:wrap;gap:.25rem 1rem;margin:0;padding:0;list-style:none;font-size:.9rem}
a{color:var(--accent)}
section{margin-top:1.5rem;padding:1.25rem;background:var(--card);border:1px solid var(--edge);border-radius:8px}
section>p{margin:.25rem 0 1rem;color:var(--soft)}
.beside{display:grid;grid-template-columns:minmax(0,4fr) minmax(0,3fr);gap:1.25rem;align-items:start}
.beside>:only-child{grid-column:1/-1}
.below figure{max-width:760px;margin-bottom:1.25rem}
@media(max-width:860px){.beside{grid-template-columns:minmax(0,1fr)}}
figure{margin:0}
svg{display:block;width:100%;height:auto;overflow:visible;font-size:11px}
svg text{fill:var(--soft)}
svg .name{fill:var(--ink)}
.grid{stroke:var(--grid)}
.line{fill:none;stroke-width:2;stroke-linejoin:round}
.bar{fill:var(--accent)}
.swatch{display:inline-block;width:.8em;height:.8em;margin-right:.4em;border-radius:2px;vertical-align:-.05em}
.c0{stroke:var(--c0);background:var(--c0)}.c1{stroke:var(--c1);background:var(--c1)}.c2{stroke:var(--c2);background:var(--c2)}
.c3{stroke:var(--c3);background:var(--c3)}.c4{stroke:var(--c4);background:var(--c4)}.c5{stroke:var(--c5);background:var(--c5)}
.c6{stroke:var(--c6);background:var(--c6)}.c7{stroke:var(--c7);background:var(--c7)}
.dot{fill:var(--card);stroke-width:1.5}
.table{max-height:22rem;overflow:auto}
table{width:100%;border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums}
caption{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
th,td{padding:.3rem .5rem;border-bottom:1px solid var(--edge);text-align:left;vertical-align:top;overflow-wrap:break-word;max-width:28rem}
thead th{position:sticky;top:0;background:var(--card);color:var(--soft);font-weight:600}
tbody th{font-weight:500}
.number{text-align:right;white-space:nowrap}
thead .number{white-space:normal}
.nothing,footer{color:var(--soft);font-size:.9rem}
footer{margin-top:1.5rem}
@media print{body{max-width:none;padding:0}section{break-inside:avoid}.table{max-height:none}nav{display:none}}
"""
