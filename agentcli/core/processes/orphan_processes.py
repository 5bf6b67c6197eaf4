"""Find processes of commands and MCP servers that left their group (setsid, daemons) by a mark in their environment,
which they inherit.

Linux only, through /proc; elsewhere only the process group can be stopped. A process that clears its environment
escapes this too: only a sandbox contains everything.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Mapping

from agentcli.core.aio import in_thread, start_task, wait_uncancelled
from agentcli.core.processes.own_programs import shell_command, start_program_async

SESSION_VARIABLE = "AGENTCLI_SESSION"
CALL_VARIABLE = "AGENTCLI_CALL"
_GRACE = 0.2
_POLL = 0.02
_ROUNDS = 5
_EXEC_LOOKS = 4
_EXEC_SECONDS = 0.002

_WATCH = """\
exec 3<&0 </dev/null >/dev/null 2>&1
(
group=
trap '' HUP INT TERM
while read -r line <&3; do [ "$line" != done ] || exit 0; group=$line; done
[ -z "$group" ] || { sleep 1; kill -s KILL -- "-$group"; }
for round in 1 2 3 4 5; do
  found=$(grep -lsF -- "$1" /proc/[0-9]*/environ)
  [ -n "$found" ] || exit 0
  for file in $found; do pid=${file#/proc/}; kill -KILL "${pid%/environ}"; done
done
) &
"""
"""Shell script that waits for the end of its input, which comes when agentcli has ended, then kills all marked
processes, and before them the process group that it read, which gets a second to notice the end of its own input. It is
not a child of agentcli, so that an exit which kills all children does not stop it."""


def new_mark() -> str:
    """A random mark. It must be unguessable, since it decides which processes are killed."""
    return os.urandom(12).hex()


def marked(environ: Mapping[str, str], variable: str, mark: str) -> dict[str, str]:
    """The environment with a mark. Existing marks stay: an agent may have been started by another one."""
    before = environ.get(variable)
    return {**environ, variable: f"{before}:{mark}" if before else mark}


def find_marked(mark: str) -> list[int]:
    """Pids of the running processes with this mark. Blocking; some milliseconds."""
    if not sys.platform.startswith("linux"):
        return []
    wanted = mark.encode()
    found: list[int] = []
    pids = [name for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - hundreds of paths for nothing
    for look in range(_EXEC_LOOKS):
        environments = {pid: _environment_of(pid) for pid in pids}
        found += [int(pid) for pid, content in environments.items() if content and wanted in content]
        # While a process starts another program, its environment reads as empty: look at those again.
        pids = [pid for pid, content in environments.items() if content == b"" and _has_program(pid)]
        if not pids or look == _EXEC_LOOKS - 1:
            break
        time.sleep(_EXEC_SECONDS)
    return found


def _has_program(pid: str) -> bool:
    """False for threads of the kernel."""
    try:
        return bool(os.readlink(f"/proc/{pid}/exe"))  # noqa: PTH115 - as above
    except OSError:
        return False


def _environment_of(pid: str) -> bytes | None:
    """None if it is not readable: processes of other users, and those that have ended."""
    try:
        descriptor = os.open(f"/proc/{pid}/environ", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    content = b""
    try:
        while piece := os.read(descriptor, 1 << 17):
            content += piece
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return content


def terminate_outside(mark: str, group: int) -> None:
    """Send SIGTERM to marked processes outside of a process group. Blocking."""
    _signal_marked(mark, signal.SIGTERM, except_group=group)


def kill_marked(mark: str) -> None:
    """Kill marked processes until none is found: a killed process may just have started another."""
    for _round in range(_ROUNDS):
        if not _signal_marked(mark, signal.SIGKILL):
            return


async def end_marked(mark: str) -> bool:
    """Send SIGTERM, then SIGKILL. Returns whether there was any process."""
    if not await in_thread(_signal_marked, mark, signal.SIGTERM):
        return False
    for _look in range(int(_GRACE / _POLL)):
        if not await in_thread(find_marked, mark):
            return True
        await asyncio.sleep(_POLL)
    await in_thread(kill_marked, mark)
    return True


def _signal_marked(mark: str, number: int, *, except_group: int | None = None) -> bool:
    pids = [pid for pid in find_marked(mark) if pid != os.getpid()]
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if except_group is None or os.getpgid(pid) != except_group:
                os.kill(pid, number)
    return bool(pids)


class Watch:
    """Kills marked processes if this process ends without having done so, even after `kill -9`."""

    def __init__(self) -> None:
        self._descriptor: int | None = None

    async def start(self, mark: str) -> None:
        """Start the watch. Does nothing if a watch is running or cannot be started."""
        if self._descriptor is not None:
            return
        reading, self._descriptor = os.pipe()
        starting = start_task(_start_watch(mark, reading), name="watch")
        try:
            await asyncio.shield(starting)
        except OSError:
            self.close()
        finally:
            try:
                await wait_uncancelled([starting])
            finally:
                os.close(reading)

    def add_group(self, leader: int) -> None:
        """Kill this process group, too; needed where there is no /proc."""
        self._write(f"{leader}\n")

    def dismiss(self) -> None:
        """End the watch: no process is left."""
        self._write("done\n")
        self.close()

    def _write(self, line: str) -> None:
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.write(self._descriptor, line.encode())

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


async def _start_watch(mark: str, descriptor: int) -> None:
    command = [*shell_command(_WATCH), "sh", mark]
    process = await start_program_async(command, cwd="/", environ={"PATH": os.defpath}, stdin=descriptor)
    await process.wait()
