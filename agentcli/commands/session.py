"""/rename, /clear, /resume and /exit: the session itself; /login and /logout: its model."""

from __future__ import annotations

import asyncio
import os
from datetime import datetime
from functools import partial

from agentcli.agent.engine import Engine
from agentcli.commands.front_end import Choice, FrontEnd
from agentcli.config.paths import Paths
from agentcli.core.errors import UsageError
from agentcli.core.text.format import counted
from agentcli.core.text.plaintext import plain_line
from agentcli.session.find import SessionInfo, list_sessions

_HOW = "/rename NAME changes it."


async def run_rename(engine: Engine, arguments: str) -> str:
    """agentcli -r NAME resumes a session by its name.

    /rename             show the name
    /rename the parser  name this session
    """
    title = plain_line(arguments)
    if not title:
        name = plain_line(engine.title)
        if name and engine.session.store.is_title_generated:
            return f"This session has no name. Its generated title is {name}. {_HOW}"
        return f"This session is called {name}. {_HOW}" if name else f"This session has no name. {_HOW}"
    engine.session.store.set_title(title)
    return f"This session is now called {title}."


async def run_clear(_engine: Engine | None, _arguments: str, front_end: FrontEnd) -> str:
    """The previous session is kept. /resume returns to it.

    /clear  start a new session
    """
    await front_end.open_session()
    return "New session. /resume returns to the previous session."


MAX_LISTED = 20


async def run_resume(engine: Engine | None, arguments: str, front_end: FrontEnd) -> None:
    """The list shows how each session ended. Type to search names and first prompts.

    /resume         choose from a list
    /resume parser  resume the session that matches
    """
    wanted = arguments or await pick_session(front_end)
    if wanted is None:
        return
    if engine is not None and engine.session_id == wanted:
        raise UsageError("This session is already open.")
    await front_end.open_session(wanted)


async def pick_session(front_end: FrontEnd) -> str | None:
    """Let the user pick a session from a list; returns its id. Raises `AgentError`."""
    options = await front_end.options()
    state_dir = Paths.from_environ(os.environ if options.environ is None else options.environ).state_dir
    if state_dir is None:
        raise UsageError("There is no folder for sessions: set HOME or AGENTCLI_STATE_DIR.")
    load = partial(list_sessions, state_dir, options.cwd)
    if front_end.has_pages:
        picked: SessionInfo | None = await front_end.page("resume", load)
        return picked.session_id if picked is not None else None
    found = (await asyncio.to_thread(load))[:MAX_LISTED]
    if not found:
        raise UsageError("There is no earlier session in this folder.")
    return await front_end.choose("Resume a session", [_session_choice(session) for session in found])


def _session_choice(session: SessionInfo) -> Choice:
    when = datetime.fromtimestamp(session.modified).strftime("%Y-%m-%d %H:%M")
    count = "" if session.message_count is None else f"  {counted(session.message_count, 'message')}"
    return Choice(session.session_id, f"{plain_line(session.label, 100)}{count}", when)


async def run_exit(_engine: Engine | None, _arguments: str, front_end: FrontEnd) -> None:
    """Ctrl+C twice does the same. An unsent prompt is restored at the next start.

    /exit  quit
    """
    front_end.leave()


async def run_login(_engine: Engine | None, _arguments: str, front_end: FrontEnd) -> None:
    """The key is hidden while you paste it, checked, and stored in the system keyring or in a file that only you can
    read. It is sent to its own address only. Servers are searched on this machine only. The session continues.

    /login  enter a key or choose a server on this machine
    """
    await front_end.connect()


async def run_logout(_engine: Engine | None, _arguments: str, front_end: FrontEnd) -> str:
    """Removes only a key stored by login. A key from the environment or apiKeyHelper stays in use.

    /logout  remove the key for the current address
    """
    return await front_end.disconnect()
