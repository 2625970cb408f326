"""How long a retry waits, for every policy, with chance as an argument."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowq.model.queue import Policy
from rowq.model.retry import Backoff, Delays, Exponential, Linear, delay_ms, implied_attempts

YEAR = 366 * 86_400_000
millis = st.integers(0, YEAR)
chances = st.floats(0, 1, exclude_max=True)


def waits(backoff: Backoff, count: int, chance: float = 0.0) -> list[int]:
    return [delay_ms(backoff, retry, lambda: chance) for retry in range(1, count + 1)]


def test_the_default_waits_1_5_15_30_60_seconds() -> None:
    assert waits(Policy().backoff, 5) == [1_000, 5_000, 15_000, 30_000, 60_000]


def test_the_last_delay_of_a_list_serves_all_later_retries() -> None:
    assert waits(Delays((1, 2)), 5) == [1, 2, 2, 2, 2]


def test_an_empty_list_retries_at_once() -> None:
    assert waits(Delays(), 3) == [0, 0, 0]


def test_linear_grows_by_its_step_up_to_its_cap() -> None:
    assert waits(Linear(2_000, cap_ms=5_000), 4) == [2_000, 4_000, 5_000, 5_000]


def test_exponential_grows_by_its_factor_up_to_its_cap() -> None:
    assert waits(Exponential(1_000), 4) == [1_000, 2_000, 4_000, 8_000]
    assert waits(Exponential(2_000, factor=3, cap_ms=10_000), 4) == [2_000, 6_000, 10_000, 10_000]


def test_a_factor_of_one_does_not_grow() -> None:
    assert waits(Exponential(1_000, factor=1), 3) == [1_000] * 3


@pytest.mark.parametrize(("chance", "expected"), [(0.0, 1_000), (0.5, 750), (1.0, 500)])
def test_jitter_takes_up_to_its_share_off(chance: float, expected: int) -> None:
    assert waits(Exponential(1_000, jitter=0.5), 1, chance) == [expected]


@pytest.mark.parametrize(("chance", "expected"), [(0.0, 1_100), (0.5, 1_200), (1.0, 1_300)])
def test_plus_adds_between_its_bounds(chance: float, expected: int) -> None:
    assert waits(Exponential(1_000, plus_ms=(100, 300)), 1, chance) == [expected]


@given(base=millis, factor=st.floats(1, 1_000), cap=millis, jitter=st.floats(0, 1), retry=st.integers(1, 10_000), chance=chances)
def test_an_exponential_wait_is_never_negative_nor_over_its_cap(
    base: int, factor: float, cap: int, jitter: float, retry: int, chance: float
) -> None:
    assert 0 <= delay_ms(Exponential(base, factor, cap, jitter), retry, lambda: chance) <= cap


@given(low=millis, span=st.integers(0, 1_000_000), retry=st.integers(1, 100), chance=chances)
def test_plus_stays_between_its_bounds(low: int, span: int, retry: int, chance: float) -> None:
    assert low <= delay_ms(Exponential(0, plus_ms=(low, low + span)), retry, lambda: chance) <= low + span


@given(step=millis, cap=millis, retry=st.integers(1, 10_000))
def test_a_linear_wait_is_never_over_its_cap(step: int, cap: int, retry: int) -> None:
    assert 0 <= delay_ms(Linear(step, cap), retry, lambda: 0.5) <= cap


@given(delays=st.lists(millis, min_size=1, max_size=10), retry=st.integers(1, 50))
def test_the_delay_before_retry_k_is_the_kth_of_the_list(delays: list[int], retry: int) -> None:
    assert delay_ms(Delays(tuple(delays)), retry, lambda: 0.5) == (delays + [delays[-1]] * 50)[retry - 1]


def test_a_list_of_n_delays_implies_n_plus_1_deliveries() -> None:
    assert implied_attempts(Delays((1_000, 5_000, 10_000))) == 4


@pytest.mark.parametrize("backoff", [Delays(), Linear(1_000), Exponential(1_000)])
def test_a_policy_that_names_no_delays_implies_no_limit(backoff: Backoff) -> None:
    assert implied_attempts(backoff) is None


@pytest.mark.parametrize("backoff", [Delays(), Delays((1, 2)), Linear(5, 6), Exponential(1, 1.5, 9, 0.25, (1, 2))])
def test_a_policy_travels_as_json(backoff: Backoff) -> None:
    assert msgspec.json.decode(msgspec.json.encode(backoff), type=Backoff) == backoff


IMPOSSIBLE = [
    b'{"kind":"list","delays_ms":[-1]}',
    b'{"kind":"list","delays_ms":[1.5]}',
    b'{"kind":"list","delays_ms":[31622400001]}',
    b'{"kind":"linear"}',
    b'{"kind":"linear","step_ms":-1}',
    b'{"kind":"exponential","base_ms":1,"factor":0.5}',
    b'{"kind":"exponential","base_ms":1,"jitter":1.5}',
    b'{"kind":"exponential","base_ms":1,"plus_ms":[1]}',
    b'{"kind":"nonsense"}',
    b'{"kind":"list","colour":"red"}',
    b"[]",
]


@pytest.mark.parametrize("text", IMPOSSIBLE)
def test_an_impossible_policy_is_refused(text: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(text, type=Backoff)
