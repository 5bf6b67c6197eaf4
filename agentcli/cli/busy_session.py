"""Refuses a session that is open elsewhere before anything is on the screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from agentcli.cli.parse import Parsed, parse
from agentcli.core.errors import AgentError


def refuse_busy_session(parsed: Parsed, environ: Mapping[str, str], cwd: Path) -> None:
    """Raise `SessionBusy` if the session of `-c` or `-r ID` is in use. A search by name reads all sessions, which takes
    too long before the first frame: opening the session refuses it."""
    resume = parsed.get("resume") or ""
    copies = parsed.get("fork_session") or parsed.get("no_session_persistence")
    if parsed.headless or copies or not (resume or parsed.get("continue")):
        return
    from agentcli.config.paths import Paths
    from agentcli.session.find import find, latest
    from agentcli.session.journal import refuse_if_in_use
    from agentcli.session.paths import is_session_id

    state_dir = Paths.from_environ(environ).state_dir
    if state_dir is None or (resume and not is_session_id(resume.strip())):
        return
    found = find(state_dir, cwd, resume)[:1] if resume else [latest(state_dir, cwd)]
    for session in found:
        if session is not None:
            refuse_if_in_use(session.path)


def will_be_refused(argv: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Whether these arguments end in a message instead of the app."""
    with suppress(OSError):
        try:
            refuse_busy_session(parse(argv), environ, Path.cwd())
        except AgentError:
            return True
    return False
