"""One test for all rows of a table, for rows that take microseconds: as a test each, setup and report take longer.

Use it where no row changes what a fixture made. Rows that need a folder or a process of their own stay tests of their
own (`pytest.mark.parametrize`).
"""

from __future__ import annotations

import functools
import inspect
import traceback
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from tests.support.virtual import run_virtual

Test = Callable[..., Coroutine[Any, Any, None] | None]


def each_row(names: str | Sequence[str], rows: Iterable[Any]) -> Callable[[Test], Callable[..., None]]:
    """Like `pytest.mark.parametrize`, in one test, which names every row that fails and why. Each row of an
    asynchronous test has an event loop of its own, on virtual time."""
    arguments = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    table = [row if len(arguments) > 1 else (row,) for row in rows]
    assert table, "a table without rows tests nothing"
    assert not any(isinstance(row, ParameterSet) for row in (*table, *(row[0] for row in table))), "ids are not needed"
    assert all(len(row) == len(arguments) for row in table), "a row has too many or too few values"

    def decorate(test: Test) -> Callable[..., None]:
        @functools.wraps(test)
        def every_row(**fixtures: Any) -> None:
            failed = [
                found for row in table if (found := _failure(test, dict(zip(arguments, row, strict=True)), fixtures))
            ]
            if failed:
                pytest.fail(f"{len(failed)} of {len(table)} rows failed\n\n" + "\n\n".join(failed), pytrace=False)

        signature = inspect.signature(test)
        fixtures = [parameter for name, parameter in signature.parameters.items() if name not in arguments]
        every_row.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]
        return every_row

    return decorate


def _failure(test: Test, row: dict[str, Any], fixtures: dict[str, Any]) -> str | None:
    try:
        started = test(**row, **fixtures)
        if started is not None:
            run_virtual(started)
    except (Exception, pytest.fail.Exception) as error:
        shown = ", ".join(f"{name}={value!r}" for name, value in row.items())
        frame = traceback.extract_tb(error.__traceback__)[-1]
        return f"{shown}\n{frame.filename}:{frame.lineno}: {type(error).__name__}: {error}"
    return None


def grouped(rows: Mapping[Any, Iterable[Any]]) -> list[tuple[Any, Any]]:
    """Rows of two values from a table that groups them by the second: the expected answer."""
    return [(given, answer) for answer, each in rows.items() for given in each]


def cells(table: str) -> list[str]:
    """The cells of a table of texts: one below the other, or beside each other with ` ¦ ` between them."""
    return [cell for row in table.strip("\n").split("\n") for cell in row.split(" ¦ ")]
