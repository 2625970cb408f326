"""Schedules: every minute that a reader would tick off in a calendar, and no other."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowq.errors import InvalidArgument
from rowq.model.cron import read_cron

MINUTE = 60_000
BOUNDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))


def at(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("schedule", "after", "expected"),
    [
        ("* * * * *", "2026-01-01T00:00:00", "2026-01-01T00:01:00"),
        ("* * * * *", "2026-01-01T00:00:59.999", "2026-01-01T00:01:00"),
        ("0 2 * * *", "2026-01-01T01:59:59", "2026-01-01T02:00:00"),
        ("0 2 * * *", "2026-01-01T02:00:00", "2026-01-02T02:00:00"),
        ("*/15 * * * *", "2026-12-31T23:45:00", "2027-01-01T00:00:00"),
        ("5/20 8-10 * * *", "2026-01-01T08:46:00", "2026-01-01T09:05:00"),
        ("30 4 1,15 * *", "2026-02-15T04:30:00", "2026-03-01T04:30:00"),
        ("0 0 * * MON-FRI", "2026-11-13T12:00:00", "2026-11-16T00:00:00"),
        ("0 0 * * 7", "2026-11-13T12:00:00", "2026-11-15T00:00:00"),
        ("0 0 13 * fri", "2026-11-13T00:00:00", "2026-11-20T00:00:00"),
        ("0 0 29 2 ?", "2096-02-29T00:00:00", "2104-02-29T00:00:00"),
        ("0 0 31 jan-Dec *", "2026-01-31T00:00:00", "2026-03-31T00:00:00"),
        ("@hourly", "2026-01-01T00:59:00", "2026-01-01T01:00:00"),
        ("@daily", "2026-01-01T00:00:00", "2026-01-02T00:00:00"),
        ("@weekly", "2026-11-15T00:00:00", "2026-11-22T00:00:00"),
        ("@monthly", "2026-12-01T00:00:00", "2027-01-01T00:00:00"),
        ("@Yearly", "2026-01-01T00:00:00", "2027-01-01T00:00:00"),
    ],
)
def test_the_next_time(schedule: str, after: str, expected: str) -> None:
    assert read_cron(schedule).next(at(after)) == at(expected)


@pytest.mark.parametrize(
    "schedule",
    [
        *("", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 13 * ", "* * * * 8"),
        *("*/0 * * * *", "5-1 * * * *", "a * * * *", "* * * * mon-fri-sun", "1, * * * *", "-1 * * * *", "1.5 * * * *"),
        *("0 0 30 2 *", "0 0 31 4,6 *", "@reboot", "@every 1h", "* * * mon *", "\N{SUPERSCRIPT TWO} * * * *", "*/100 * * * *"),
    ],
)
def test_what_is_no_schedule_is_told_so(schedule: str) -> None:
    with pytest.raises(InvalidArgument):
        read_cron(schedule)


@st.composite
def fields(draw: st.DrawFn, low: int, high: int) -> tuple[str, set[int], bool]:
    """A field, the values that it means, and whether it is restricted."""
    kind = draw(st.sampled_from(["any", "one", "range", "steps", "list"]))
    first = draw(st.integers(low, high))
    last = draw(st.integers(first, high))
    step = draw(st.integers(2, 20))
    match kind:
        case "any":
            return "*", set(range(low, high + 1)), False
        case "one":
            return str(first), {first}, True
        case "range":
            return f"{first}-{last}/{step}", set(range(first, last + 1, step)), True
        case "steps":
            return f"*/{step}", set(range(low, high + 1, step)), True
    return f"{first},{last}", {first, last}, True


DAY = st.datetimes(datetime(2020, 1, 1), datetime(2105, 1, 1))


@given(*(fields(*bounds) for bounds in BOUNDS), DAY)
def test_the_next_time_is_the_first_that_fits(
    minute: tuple[str, set[int], bool],
    hour: tuple[str, set[int], bool],
    day: tuple[str, set[int], bool],
    month: tuple[str, set[int], bool],
    weekday: tuple[str, set[int], bool],
    start: datetime,
) -> None:
    chosen = (minute, hour, day, month, weekday)
    try:
        schedule = read_cron(" ".join(text for text, _, _ in chosen))
    except InvalidArgument:
        assert not weekday[2] and min(day[1]) > 28, "only a day that no month has"
        return

    def fits(moment: datetime) -> bool:
        is_day, is_weekday = moment.day in day[1], (moment.weekday() + 1) % 7 in weekday[1]
        is_any_day = is_day or is_weekday if day[2] and weekday[2] else is_day and is_weekday
        return moment.minute in minute[1] and moment.hour in hour[1] and moment.month in month[1] and is_any_day

    begin = start.replace(tzinfo=UTC)
    found = datetime.fromtimestamp(schedule.next(round(begin.timestamp() * 1000)) / 1000, UTC)
    assert found > begin
    assert fits(found)
    between = begin.replace(second=0, microsecond=0) + timedelta(minutes=1)
    for _ in range(2_000):
        if between >= found:
            return
        assert not fits(between)
        between += timedelta(minutes=1)
    before = found - timedelta(minutes=2_000)
    assert not any(fits(before + timedelta(minutes=number)) for number in range(2_000) if before + timedelta(minutes=number) > begin)
