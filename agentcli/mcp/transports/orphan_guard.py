"""Stop the program of an MCP server if agentcli is killed and cannot do so itself."""

from __future__ import annotations

import contextlib
import os

from agentcli.core.processes.own_programs import end_program, shell_command, start_program_async

_GUARD = """\
exec 3<&0 </dev/null >/dev/null 2>&1
(
trap '' HUP INT TERM
read -r leader <&3 || exit 0
read -r word <&3 && exit 0
sleep 1
kill -s KILL -- "-$leader"
) &
"""
"""Shell script that reads the process group, then waits for a line or for the end of its input, which comes when
agentcli has ended. Then it gives the program a second to notice the end of its own input. It is not a child of
agentcli, whose forced exit kills all children."""


class OrphanGuard:
    """Guard of one program, started before it, so that it is always guarded. Call `dismiss` when the program's group is
    gone."""

    def __init__(self, pipe: int | None) -> None:
        self._pipe = pipe

    @classmethod
    async def start(cls) -> OrphanGuard:
        """Start a guard; returns one that does nothing if it cannot be started."""
        read, write = os.pipe()
        environ = {"PATH": "/usr/bin:/bin"}
        try:
            shell = await start_program_async(shell_command(_GUARD), cwd="/", environ=environ, stdin=read)
        except OSError:
            os.close(write)
            return cls(None)
        except BaseException:
            os.close(write)
            raise
        finally:
            os.close(read)
        try:
            await shell.wait()
        except BaseException:
            os.close(write)
            await end_program(shell)
            raise
        return cls(write)

    def watch(self, leader: int) -> None:
        self._write(f"{leader}\n")

    def dismiss(self) -> None:
        self._write("done\n")
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None

    def _write(self, text: str) -> None:
        if self._pipe is not None:
            with contextlib.suppress(OSError):
                os.write(self._pipe, text.encode())
