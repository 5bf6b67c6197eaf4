"""Refuse a session that another process has open, before anything is on the screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from agentcli.cli.flags.parse import Parsed, parse
from agentcli.core.errors import AgentError


def refuse_busy_session(parsed: Parsed, environ: Mapping[str, str], cwd: Path) -> None:
    """Raise `SessionBusy` if the session of `-c` or `-r` is in use. A search by name reads all sessions, which takes
    too long before the first frame, so it is done only if one of the project's sessions is open."""
    resume = parsed.get("resume") or ""
    copies = parsed.get("fork_session") or parsed.get("no_session_persistence")
    if parsed.headless or copies or not (resume or parsed.get("continue")):
        return
    from agentcli.config.paths import Paths
    from agentcli.session.find import find, latest
    from agentcli.session.journal import refuse_if_in_use
    from agentcli.session.paths import is_session_id, project_dir

    state_dir = Paths.from_environ(environ).state_dir
    if state_dir is None:
        return
    is_id = is_session_id(resume.strip())
    if not resume:
        found = [session] if (session := latest(state_dir, cwd)) is not None else []
    elif is_id or _is_any_open(project_dir(state_dir, cwd)):
        found = find(state_dir, cwd, resume)
    else:
        return
    # An ambiguous name is refused later, for that reason.
    if found and (is_id or len(found) == 1):
        refuse_if_in_use(found[0].path)


def _is_any_open(folder: Path) -> bool:
    from agentcli.session.journal import refuse_if_in_use

    try:
        for lock in folder.glob("*.lock"):
            refuse_if_in_use(lock)
    except AgentError:
        return True
    return False


def will_be_refused(argv: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Whether the session of these arguments is in use, so that a message is printed instead of opening the app."""
    with suppress(OSError):
        try:
            refuse_busy_session(parse(argv), environ, Path.cwd())
        except AgentError:
            return True
    return False
