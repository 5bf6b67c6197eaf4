"""A table in one test runs every row, and names every row that fails."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from tests.support.tables import each_row


def test_every_row_runs_and_every_failure_is_named() -> None:
    seen: list[tuple[str, int]] = []

    @each_row(("text", "size"), [("a", 1), ("bb", 1), ("c", 1), ("dd", 3)])
    def check(text: str, size: int, factor: int) -> None:
        seen.append((text, size))
        assert len(text) == size * factor

    with pytest.raises(pytest.fail.Exception) as caught:
        check(factor=1)
    assert [text for text, _size in seen] == ["a", "bb", "c", "dd"]
    message = str(caught.value)
    assert message.startswith("2 of 4 rows failed")
    assert "text='bb', size=1" in message
    assert "text='dd', size=3" in message
    assert "assert 2 == (3 * 1)" in message
    assert list(inspect.signature(check).parameters) == ["factor"]


def test_tables_can_be_combined() -> None:
    seen: list[tuple[int, int]] = []

    @each_row("first", [1, 2])
    @each_row("second", [1, 2])
    def check(first: int, second: int) -> None:
        seen.append((first, second))
        assert (first, second) != (2, 1)

    with pytest.raises(pytest.fail.Exception, match="first=2"):
        check()
    assert seen == [(1, 1), (1, 2), (2, 1), (2, 2)]


@pytest.mark.parametrize("rows", [[], [("a",)], [("a", 1, 2)], [pytest.param("a", 1)]])
def test_a_table_without_rows_or_with_odd_rows_is_refused(rows: list[tuple[object, ...]]) -> None:
    with pytest.raises(AssertionError):
        each_row("text, size", rows)


def test_every_row_of_an_asynchronous_test_has_an_event_loop_of_its_own() -> None:
    loops: list[object] = []

    @each_row("text", ["a", "b"])
    async def check(text: str) -> None:
        loops.append(asyncio.get_running_loop())
        assert text == "a"

    with pytest.raises(pytest.fail.Exception, match="text='b'"):
        check()
    assert loops[0] is not loops[1]
