from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentcli.providers.retry import RetryPolicy, retry_after_seconds
from tests.support.tables import each_row

NOW = "2026-11-16T12:00:00.000Z"
chances = st.floats(0, 1, exclude_max=True)


def test_backoff_doubles_from_half_a_second_to_32() -> None:
    waits = [RetryPolicy().backoff(retry, 0.5) for retry in range(1, 11)]
    assert waits == [0.5, 1, 2, 4, 8, 16, 32, 32, 32, 32]


@given(st.integers(1, 100), chances)
def test_backoff_is_spread_by_a_quarter_at_most(retry: int, chance: float) -> None:
    middle = RetryPolicy().backoff(retry, 0.5)
    assert 0.75 * middle <= RetryPolicy().backoff(retry, chance) <= 1.25 * middle


@given(st.floats(0.001, 60), chances)
def test_a_wait_is_never_shorter_than_the_server_requests(asked: float, chance: float) -> None:
    wait = RetryPolicy().wait(1, asked, chance)
    assert wait is not None
    assert asked <= wait <= asked + 1


def test_a_wait_of_more_than_a_minute_is_refused() -> None:
    assert RetryPolicy().wait(1, 61, 0.5) is None


@each_row(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "-3"}, 0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1e400"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after-ms": "x", "retry-after": "9"}, 9),
        ({"retry-after": "Mon, 16 Nov 2026 12:00:30 GMT"}, 30),
        ({"retry-after": "Mon, 16 Nov 2026 11:00:00 GMT"}, 0),
        ({"retry-after": "Mon, 16 Nov 2026 12:00:30 GMT", "date": "Mon, 16 Nov 2026 12:00:10 GMT"}, 20),
    ],
)
def test_retry_after_is_read_in_all_its_forms(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_seconds(headers, NOW) == seconds
