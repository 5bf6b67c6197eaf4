"""/rename, /clear, /resume, /sessions and /exit: the session itself; /login and /logout: its model."""

from __future__ import annotations

import asyncio
import os
import time
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.agent.engine import Engine
from agentcli.commands.front_end import Choice, FrontEnd
from agentcli.config.paths import Paths
from agentcli.core.errors import UsageError
from agentcli.core.frozen import frozen
from agentcli.core.text.format import counted
from agentcli.core.text.plaintext import plain_line
from agentcli.session.find import SessionInfo

if TYPE_CHECKING:
    from agentcli.session.search_index import SearchHit, SessionIndex

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
            return f"This session has no name. Its generated title is “{name}”. {_HOW}"
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
MAX_SEARCH_SECONDS = 10.0
"""How long plain mode searches. What was indexed by then stays in the index."""


async def run_resume(engine: Engine | None, arguments: str, front_end: FrontEnd) -> str | None:
    """The list shows how each session ended. Type to search names and everything that was said.

    /resume         choose from a list
    /resume parser  resume the session that matches
    """
    if not arguments:
        return await run_sessions(engine, "", front_end)
    if engine is not None and engine.session_id == arguments:
        raise UsageError("This session is already open.")
    await front_end.open_session(arguments)
    return None


async def run_sessions(engine: Engine | None, arguments: str, front_end: FrontEnd) -> str | None:
    """Finds sessions by name, and prompts by their words, those of the answers and the commands that ran. Enter opens
    the session at that prompt. agentcli sessions search does the same from a shell.

    /sessions                choose from a list
    /sessions timeout retry  prompts of this folder with both words
    """
    choice = await pick_session(front_end, arguments)
    if choice is None:
        return None
    if engine is None or engine.session_id != choice.session.session_id:
        await front_end.open_session(choice.session.session_id)
    elif choice.hit is None:
        raise UsageError("This session is already open.")
    if choice.hit is None or not choice.hit.prompt_id:
        return None
    if front_end.has_pages:
        await front_end.page("prompt", choice.hit)
        return None
    return f"Found in prompt {choice.hit.number}: {choice.hit.found.text}"


@frozen
class SessionChoice:
    session: SessionInfo
    hit: SearchHit | None = None
    """The prompt at which to open it; None: at its end."""


async def pick_session(front_end: FrontEnd, words: str = "") -> SessionChoice | None:
    """Let the user pick a session from a list. Raises `AgentError`."""
    from agentcli.session.search_index import SessionIndex

    options = await front_end.options()
    paths = Paths.from_environ(os.environ if options.environ is None else options.environ)
    if paths.state_dir is None:
        raise UsageError("There is no folder for sessions: set HOME or AGENTCLI_STATE_DIR.")
    index = SessionIndex(paths.index_dir, paths.state_dir)
    if front_end.has_pages:
        picked: SessionChoice | None = await front_end.page("sessions", index, options.cwd, words)
        return picked
    found, problem = await asyncio.to_thread(_list_choices, index, options.cwd, words)
    if problem:
        front_end.hint(problem)
    if not found:
        hint = "No session of this folder has these words." if words else "There is no earlier session in this folder."
        raise UsageError(hint)
    rows = [_describe_choice(place, choice) for place, choice in enumerate(found)]
    chosen = await front_end.choose("Resume a session", rows)
    return None if chosen is None else found[int(chosen)]


def _list_choices(index: SessionIndex, cwd: Path | None, words: str) -> tuple[list[SessionChoice], str]:
    """The second value says why the index was not used; "" if it was. Raises `UsageError`."""
    from agentcli.session.search_index import NotNeeded, Pace

    if not words:
        return [SessionChoice(info) for info in islice(index.list_sessions(cwd), MAX_LISTED)], ""
    until = time.monotonic() + MAX_SEARCH_SECONDS
    pace = Pace(lambda: time.monotonic() < until)
    try:
        hits, problem = index.update_and_search(words.split(), cwd, MAX_LISTED, pace)
    except NotNeeded:
        how = "Repeat the search, or use agentcli sessions search."
        raise UsageError(f"Not all sessions are in the index yet. {how}") from None
    return [SessionChoice(hit.session, hit) for hit in hits], problem


def _describe_choice(place: int, choice: SessionChoice) -> Choice:
    session, hit = choice.session, choice.hit
    when = datetime.fromtimestamp(session.modified).strftime("%Y-%m-%d %H:%M")
    count = "" if session.message_count is None else f"  {counted(session.message_count, 'message')}"
    found = f": {hit.found.text}" if hit is not None and hit.prompt_id else count
    return Choice(str(place), f"{plain_line(session.label, 40 if hit else 100)}{found}", when)


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
