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
"""GC threshold during the start, which allocates 60,000 objects, hardly any of them garbage. Python's default of 700
costs 20 ms."""
COLLECTIONS_AFTER_START = (8_000, 2, 1)
"""GC thresholds after the start. No collection takes more than about 20 ms if its survivors are frozen."""


def print_version() -> int:
    os.write(1, f"{__version__} (agentcli)\n".encode())
    return 0


def instant_prompt(argv: Sequence[str]) -> Instant | None:
    """Draw the prompt before anything else is imported, if these arguments look like the app's.

    After a wrong guess (an unknown flag) the terminal is restored before the message is printed; no other harm.
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
    from agentcli.tui.terminal import instant
    from agentcli.tui.terminal.instant import look_path

    look = instant.load_look(look_path(os.environ))
    if tour:
        from agentcli.demo import FIRST_PROMPT

        look = instant.suggest(look, FIRST_PROMPT)
    return instant.begin(0, 1, look)


def is_headless(argv: Sequence[str]) -> bool:
    """Whether these arguments ask for a headless run: `-p`, alone or among other letters, or its long form."""
    return any(word == "--print" or (word[:1] == "-" and word[1:2] != "-" and "p" in word) for word in argv)


def without_project(entries: Sequence[str], folder: str) -> list[str]:
    """Remove the current folder and everything below it from an import path, except the interpreter and this package.

    Many imports are deferred. With `python -m agentcli`, or a PYTHONPATH into the project, a module that a tool has
    written meanwhile would be imported instead.
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
    # Last, so that no file beside the package shadows a library.
    return [*kept, root] if is_source else kept


def _current_folder() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 -- before any import
    except OSError:
        return "/nowhere"


def bound_collections(phase: str, info: Mapping[str, int]) -> None:
    """GC callback that keeps collections short: it freezes all objects at the first collection, which comes after the
    start, and the survivors of each full one. Otherwise collections would take longer as the conversation grows.

    For processes that end with their conversation: frozen garbage is never collected. The app does collect it
    (`tui/startup/garbage_collection.py`).
    """
    is_first = phase == "start" and gc.get_threshold()[0] == ALLOCATIONS_BETWEEN_COLLECTIONS
    if is_first or (phase == "stop" and info["generation"] == 2):
        gc.freeze()
        gc.set_threshold(*COLLECTIONS_AFTER_START)


def main() -> None:
    """Run the console script. Never returns."""
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
    if "agentcli.core.processes.exit_cleanup" in sys.modules:
        from agentcli.core.processes.exit_cleanup import run_exit_cleanup

        run_exit_cleanup()
    # Everything that has to be closed is closed; finalising the interpreter would only cost tens of milliseconds.
    os._exit(code)


if __name__ == "__main__":
    main()
