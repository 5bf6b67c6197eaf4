"""Ends the program of an MCP server if agentcli is killed and cannot do so itself."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

from agentcli.core.own_programs import shell_command, start_program_async

_GUARD = """\
exec 3<&0 </dev/null >/dev/null 2>&1
(
trap '' HUP INT TERM
read -r word <&3 && exit 0
sleep 1
kill -s KILL -- "-$1"
) &
"""
"""Waits for a line, or for the end of its input, which comes when agentcli is gone. Then it gives the program a second
to notice the end of its own input. It is not a child of agentcli, whose forced exit kills all children."""


async def guard_group(leader: int) -> Callable[[], None]:
    """Guard the process group of a program. Returns a function that ends this: call it when the group is gone."""
    read, write = os.pipe()
    try:
        shell = await start_program_async(
            [*shell_command(_GUARD), "guard", str(leader)], cwd="/", environ={"PATH": "/usr/bin:/bin"}, stdin=read
        )
        await shell.wait()
    except BaseException:
        os.close(write)
        raise
    finally:
        os.close(read)

    def dismiss() -> None:
        with contextlib.suppress(OSError):
            os.write(write, b"done\n")
        os.close(write)

    return dismiss
