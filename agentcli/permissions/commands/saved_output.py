"""Output of an allowed command saved to a file: `npm test > out.txt` and `npm test 2>&1 | tee out.txt`.

A rule for the command covers this too, if the file is a new one inside of the working directories whose name says that
it is output, or lies in the temp folder of commands. Overwriting a file is an edit and needs what an edit needs.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from agentcli.permissions.call import PermissionCall
from agentcli.permissions.commands.command_parts import CommandPart
from agentcli.permissions.paths import is_below

_OUTPUT = re.compile(r"\.(?:txt|log|out|err|json|xml|csv|html|md|tap|diff|patch)\Z")


def tee_targets(part: CommandPart) -> tuple[str, ...]:
    """The files that `tee` would write; none if it is not a plain `tee` at the end of a pipe."""
    words = part.inner
    if words[0] != "tee" or not part.command.piped or part.extended or part.command.globs or not part.folders:
        return ()
    names = words[2:] if words[1:2] in (("-a",), ("--append",)) else words[1:]
    if not names or any(name.startswith("-") or not name for name in names):
        return ()
    return tuple(os.path.join(folder, name) for folder in part.folders for name in names)  # noqa: PTH118


def may_be_saved(path: str, call: PermissionCall, temp: Path | None) -> bool:
    """Whether output may go to this file without a rule for the file; protected names and rules are not looked at."""
    real = call.resolve(path)
    if temp is not None and is_below(real, (call.resolve(str(temp)),)):
        # A working directory below the temp folder is still one.
        return not call.is_inside(path) or _is_new_output(path, call)
    return call.is_inside(path) and _is_new_output(path, call)


def _is_new_output(path: str, call: PermissionCall) -> bool:
    name = os.path.basename(path)  # noqa: PTH119
    return (
        _OUTPUT.search(name) is not None
        and not name.startswith(".")
        and not os.path.lexists(path)
        and call.resolve(path) == os.path.normpath(path)
    )
