"""Restore the terminal after the prompt that is drawn before anything is loaded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentcli.tui.terminal.instant import Instant


def restore_terminal(early: Instant | None) -> None:
    """Restore the terminal before printing. Does nothing if it was restored already."""
    if early is not None:
        early.finish()
        early.restore.restore_terminal()


@contextmanager
def terminal_restored(early: Instant | None) -> Iterator[None]:
    """Restore the terminal at the end in any case."""
    try:
        yield
    finally:
        restore_terminal(early)
