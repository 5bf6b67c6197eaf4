"""--debug: every event as a line of JSON with the time since the start, to standard error or a file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from agentcli.core.errors import UsageError
from agentcli.core.event_base import event_to_dict
from agentcli.core.events import Event
from agentcli.core.ids import Clock
from agentcli.headless.encode import encode_line


class DebugLog:
    """Writes events as JSON lines. `filter`: parts of event names, separated by commas; a leading ! excludes events."""

    def __init__(self, write: Callable[[bytes], object], filter: str, clock: Clock) -> None:
        names = [name.strip().casefold() for name in filter.split(",") if name.strip()]
        self._wanted = [name for name in names if not name.startswith("!")]
        self._unwanted = [name[1:] for name in names if name.startswith("!")]
        self._write = write
        self._clock = clock
        self._start = clock.monotonic()

    def show(self, event: Event) -> None:
        name = type(event).__name__.casefold()
        if any(part in name for part in self._unwanted):
            return
        if self._wanted and not any(part in name for part in self._wanted):
            return
        line = encode_line({"t": round(self._clock.monotonic() - self._start, 4), **event_to_dict(event)})
        try:
            self._write(line)
        except OSError:
            # Diagnostics never stop a run.
            return


def open_debug_log(filter: str | None, file: Path | None, stderr: int, clock: Clock) -> DebugLog | None:
    """Open the log that the flags ask for, if any. Raises `UsageError` if the file cannot be written."""
    if file is not None:
        try:
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UsageError(f"--debug-file: cannot write {file} ({error.strerror}). Check the path.") from None
        # Open until the process ends: the last event may come at the very end.
        return DebugLog(lambda line: os.write(descriptor, line), filter or "", clock)
    if filter is not None:
        return DebugLog(lambda line: os.write(stderr, line), filter, clock)
    return None
