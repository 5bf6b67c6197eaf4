"""The prompt that is on the screen before anything is loaded, and how the terminal is given back after it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentcli.tui.terminal.instant import Instant


def give_back(early: Instant | None) -> None:
    """The terminal is as it was before anything is said on it. Also when it was given back already."""
    if early is not None:
        early.finish()
        early.restore.restore_terminal()


@contextmanager
def giving_back(early: Instant | None) -> Iterator[None]:
    """Whatever happens."""
    try:
        yield
    finally:
        give_back(early)
