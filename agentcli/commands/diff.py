"""/diff: what the last prompt, or the whole session, changed in files."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from agentcli.agent.engine import Engine
from agentcli.commands.base import fail, say
from agentcli.commands.files import change_lines
from agentcli.core.events import Event
from agentcli.core.plaintext import plain_text
from agentcli.core.plural import counted


async def run(engine: Engine, arguments: str) -> AsyncGenerator[Event, None]:
    if arguments not in ("", "all"):
        yield fail("/diff shows the changes of the last prompt, /diff all those of the whole session.")
        return
    whole = arguments == "all"
    changes = await engine.changes(whole)
    if not changes:
        yield say(
            "Nothing has changed since the session began." if whole else "There are no changes of a prompt to show."
        )
        return
    scope = "since the session began, your own included" if whole else "by the last prompt"
    head = f"{counted(len(changes), 'file')} changed {scope}:"
    text = "\n".join([head, *change_lines(engine, changes), "", plain_text(await engine.diff(whole))])
    yield say(text.rstrip())
