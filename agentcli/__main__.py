"""Where the process starts. Answers --version directly, which costs no import beyond the package's own, and draws
the prompt before it imports anything else."""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING

from agentcli import __version__
from agentcli.cli import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agentcli.tui.terminal.instant import Instant

_NOT_THE_APP = ("-p", "--print", "-h", "--help", "--plain", "--input-format", "--output-format", "--worktree")

ALLOCATIONS_BETWEEN_COLLECTIONS = 100_000
"""More than the 60,000 of a start, of which hardly any is garbage: looking every 700 objects costs 20 ms."""
COLLECTIONS_AFTER_START = (8_000, 2, 1)
"""Thresholds with which no collection takes more than some 20 ms, if what it has left is frozen."""


def print_version() -> int:
    os.write(1, f"{__version__} (agentcli)\n".encode())
    return 0


def instant_prompt(argv: Sequence[str]) -> Instant | None:
    """The prompt, on the screen before anything else is imported, when these arguments look like the app's.

    A guess that is wrong (a flag that does not exist) only costs that the terminal is put back before the message.
    """
    tour = list(argv) == ["demo"]
    if (argv and argv[0] in COMMANDS and not tour) or any(word.partition("=")[0] in _NOT_THE_APP for word in argv):
        return None
    if is_headless(argv):
        return None
    try:
        if not (os.isatty(0) and os.isatty(1)):
            return None
    except OSError:
        return None
    from agentcli.plain.front_end_choice import may_choose_plain

    if may_choose_plain(argv, os.environ):
        return None
    if any(_may_continue(word) for word in argv):
        from agentcli.cli.busy_session import will_be_refused

        if will_be_refused(argv, os.environ):
            return None
    from agentcli.tui.terminal import instant
    from agentcli.tui.terminal.instant import look_path

    look = instant.load_look(look_path(os.environ))
    if tour:
        from agentcli.demo import FIRST_PROMPT

        look = instant.suggesting(look, FIRST_PROMPT)
    return instant.begin(0, 1, look)


def _may_continue(word: str) -> bool:
    """Whether a word may be `--continue` or `--resume`, also among other short flags."""
    if word.startswith("--"):
        return word.startswith(("--c", "--r"))
    return word.startswith("-") and ("c" in word or "r" in word)


def is_headless(argv: Sequence[str]) -> bool:
    """Whether these arguments ask for a headless run: `-p`, alone or among other letters, or its long form."""
    return any(word == "--print" or (word[:1] == "-" and word[1:2] != "-" and "p" in word) for word in argv)


def without_project(entries: Sequence[str], folder: str) -> list[str]:
    """An import path without the current folder and what lies in it, unless the interpreter or this package is there.

    Many imports are deferred until they are needed. With `python -m agentcli`, or a PYTHONPATH that leads into the
    project, a module that a tool has written meanwhile would be imported in their place.
    """
    inside = folder.rstrip("/") + "/"
    own = tuple(f"{prefix}/" for prefix in (sys.prefix, sys.base_prefix))
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 -- before any import
    kept: list[str] = []
    is_source = False
    for entry in entries:
        if os.path.abspath(entry) == root and not entry.endswith("-packages"):  # noqa: PTH100
            is_source = True
        elif (
            entry.startswith(own)
            or entry.endswith("-packages")
            or (entry.startswith("/") and not f"{entry}/".startswith(inside))
        ):
            kept.append(entry)
    # Last, so that nothing beside the package stands in for a library.
    return [*kept, root] if is_source else kept


def _current_folder() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 -- before any import
    except OSError:
        return "/nowhere"


def bound_collections(phase: str, info: Mapping[str, int]) -> None:
    """A callback that keeps collections short. The first one comes when the start is over: all that is there then
    stays, and so does what a full collection has left. Else each would take longer, the longer the conversation is.

    For processes that end with their conversation: frozen garbage is not found again. The app looks for it
    (`tui/startup/garbage_collection.py`).
    """
    is_first = phase == "start" and gc.get_threshold()[0] == ALLOCATIONS_BETWEEN_COLLECTIONS
    if is_first or (phase == "stop" and info["generation"] == 2):
        gc.freeze()
        gc.set_threshold(*COLLECTIONS_AFTER_START)


def main() -> None:
    """The console script. Never returns."""
    early: Instant | None = None
    try:
        sys.path[:] = without_project(sys.path, _current_folder())
        if len(sys.argv) == 2 and sys.argv[1] in ("-v", "--version"):
            code = print_version()
        else:
            early = instant_prompt(sys.argv[1:])
            gc.set_threshold(ALLOCATIONS_BETWEEN_COLLECTIONS)
            if is_headless(sys.argv[1:]):
                gc.callbacks.append(bound_collections)
            from agentcli.cli.main import main as command_line

            code = command_line(sys.argv[1:], os.environ, early)
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except KeyboardInterrupt:
        code = 130
    except OSError:
        code = 141
    if early is not None:
        early.restore.restore_terminal()
    if "agentcli.core.exit_cleanup" in sys.modules:
        from agentcli.core.exit_cleanup import run_exit_cleanup

        run_exit_cleanup()
    # All that had to be closed is closed by now; taking the interpreter apart would only cost tens of milliseconds.
    os._exit(code)


if __name__ == "__main__":
    main()
