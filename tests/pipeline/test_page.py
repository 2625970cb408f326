"""The page of a report: one file, whole, readable without colours or eyes, and nothing in it that a message could have made."""

from __future__ import annotations

from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from rowq.spark.pipeline import chart
from rowq.spark.pipeline.page import Page, Section, render

HOUR = 3_600_000
SERIES = {"orders": [(HOUR * hour, float(hour % 7)) for hour in range(48)], "mails": [(HOUR * 3, 12.0), (HOUR * 9, 3.0)]}
SECTION = Section(title="Dead letters", sentence="By queue.", columns=("queue", "died"), rows=[("orders", "1,200"), ("mails", "3")])


class Outline(HTMLParser):
    """The tags of a page; fails where one is not closed."""

    VOID = frozenset({"meta", "link", "br"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def page(*sections: Section, title: str = "Queues") -> str:
    return render(Page(title=title, facts=[("Sent", "12")], sections=sections, footer="made by a test"))


def test_a_page_is_whole_and_needs_nothing_from_elsewhere() -> None:
    plot = chart.lines(SERIES, "Acked in an hour")
    text = page(SECTION, Section(title="Depth", sentence="s", plot=plot, names=list(SERIES), columns=("a",), rows=[("b",)]))
    outline = Outline(text)
    assert outline.named("title") and outline.named("html")[0]["lang"] == "en"
    assert not outline.named("script") and not outline.named("link") and not outline.named("img")
    assert "http://" not in text and "https://" not in text and "url(" not in text
    assert "prefers-color-scheme:dark" in text


def test_each_plot_has_words_and_a_table_beside_it() -> None:
    plot = chart.bars({"orders": 3.0}, "Dead letters by queue")
    outline = Outline(page(Section(title="Dead letters", sentence="s", plot=plot, columns=("queue", "died"), rows=[("orders", "3")])))
    assert [svg["aria-label"] for svg in outline.named("svg")] == ["Dead letters by queue"]
    assert len(outline.named("table")) == len(outline.named("caption")) == 1
    assert {cell["scope"] for cell in outline.named("th")} == {"col", "row"}
    headings = {heading["id"] for heading in outline.named("h2")}
    assert {section["aria-labelledby"] for section in outline.named("section")} == headings
    assert {link["href"] for link in outline.named("a")} == {f"#{section['id']}" for section in outline.named("section")}


EVIL = "</title><script>alert(1)</script>\"'&"


def test_nothing_that_a_message_says_becomes_a_part_of_the_page() -> None:
    plots = [chart.lines({EVIL: [(0, 1.0), (HOUR, 2.0)]}, EVIL), chart.bars({EVIL: 2.0}, EVIL)]
    sections = [
        Section(title=f"{EVIL}{number}", sentence=EVIL, plot=plot, names=[EVIL, EVIL], columns=(EVIL,), rows=[(EVIL,)])
        for number, plot in enumerate(plots)
    ]
    text = page(*sections, title=EVIL)
    assert "<script" not in text
    Outline(text)


def test_a_section_without_rows_says_so() -> None:
    assert "No data in this period." in page(Section(title="Retries", sentence="s", columns=("queue",), rows=[]))


def test_rows_that_were_left_out_are_told() -> None:
    assert "and 1,234 more rows" in page(Section(title="Failures", sentence="s", columns=("e",), rows=[("x",)], left_out=1234))


@pytest.mark.parametrize(
    "series",
    [
        SERIES,
        {"one point": [(HOUR, 5.0)]},
        {"nothing but zeros": [(HOUR, 0.0), (2 * HOUR, 0.0)]},
        {"a year": [(86_400_000 * day, float(day)) for day in range(365)]},
        {"huge": [(0, 1e12), (HOUR, 3.0)]},
        {"tiny": [(0, 0.001), (HOUR, 0.002)]},
    ],
    ids=lambda series: next(iter(series)),
)
@pytest.mark.parametrize("unit", ["", "ms", "%"])
def test_a_plot_stays_in_its_frame(series: dict[str, list[tuple[int, float]]], unit: str) -> None:
    drawn = ElementTree.fromstring(chart.lines(series, "a plot", unit=unit))  # noqa: S314  # ours
    for line in drawn.iter("polyline"):
        for point in line.attrib["points"].split():
            x, y = map(float, point.split(","))
            assert 0 <= x <= chart.WIDTH and 0 <= y <= chart.HEIGHT
    assert len(list(drawn.iter("polyline"))) == len(series)
    assert 2 <= len(list(drawn.iter("line"))) <= 7


def test_a_plot_of_nothing_is_nothing() -> None:
    assert chart.lines({}, "x") == chart.lines({"q": []}, "x") == chart.bars({}, "x") == ""


@pytest.mark.parametrize(
    ("value", "unit", "told"),
    [
        *((0, "ms", "0 ms"), (999, "ms", "999 ms"), (1500, "ms", "1.5 s"), (90_000, "ms", "1.5 min"), (7_200_000, "ms", "2 h")),
        *((12.345, "%", "12.3 %"), (1234567, "", "1,234,567"), (0.25, "", "0.2"), (3, "", "3")),
    ],
)
def test_amounts_are_told_as_people_read_them(value: float, unit: str, told: str) -> None:
    assert chart.amount(value, unit) == told


@pytest.mark.parametrize(
    ("columns", "row", "place"),
    [
        (("queue", "sent", "acked"), ("orders", "7", "5"), "beside"),
        (("error", "queue", "failures", "for example"), ("no <value>", "orders", "7", "no 'cat'"), "below"),
        (("consumer", *("abcdef")), ("worker-1", *("123456")), "below"),
    ],
)
def test_a_table_with_much_to_say_has_the_whole_width(columns: tuple[str, ...], row: tuple[str, ...], place: str) -> None:
    section = Section(title="Failures", sentence="", columns=columns, rows=[row])
    assert f'<div class="{place}">' in render(Page(title="", facts=[], sections=[section], footer=""))


@pytest.mark.parametrize(
    ("most", "told"),
    [(740_000, ["0 ms", "2.5 min", "5 min", "7.5 min", "10 min", "12.5 min"]), (9_000, ["0 ms", "2 s", "4 s", "6 s", "8 s", "10 s"])],
)
def test_an_axis_of_times_has_round_numbers(most: float, told: list[str]) -> None:
    drawn = ElementTree.fromstring(chart.lines({"orders": [(0, 0), (1, most)]}, "", unit="ms"))  # noqa: S314  # ours
    assert [text.text for text in drawn.iter("text")][: len(told)] == told
