"""Slash commands that the app does on its screen, as far as lines can do them too. All others are `commands/`'s own."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from agentcli.core.answers import answers as answer_texts
from agentcli.core.errors import AgentError
from agentcli.core.plaintext import plain_line, plain_text
from agentcli.core.plural import counted
from agentcli.plain.pieces import Line, line
from agentcli.plain.reading import Left
from agentcli.plain.session import Session
from agentcli.plain.welcoming import Welcoming

if TYPE_CHECKING:
    from agentcli.assemble import Options

_MOST_SESSIONS = 20
_FENCED = re.compile(r"^ {0,3}(`{3,}|~{3,})[^\n]*\n(.*?)^ {0,3}\1[`~]*[ \t]*$", re.MULTILINE | re.DOTALL)
KEYS = """\
Enter sends; Ctrl+J, Alt+Enter or a backslash at the end begins another line
Esc or Ctrl+C stops the work
At the prompt Ctrl+C clears it, twice leaves, and so does Ctrl+D
What is typed while it works stands in the next prompt
There Enter lets it wait, and Enter alone puts it in place of the work
Tab completes / commands and @ files; ! runs a command of your own
Up and Ctrl+R bring back what was sent; Ctrl+X Ctrl+E opens your editor
Shift+Tab changes the permission mode; Ctrl+B sends a command to the background"""


class Place(Protocol):
    """What commands need of the front end around the session."""

    session: Session
    welcoming: Welcoming

    @property
    def options(self) -> Options | None: ...

    @property
    def state_dir(self) -> Path | None: ...

    @property
    def cwd(self) -> Path: ...

    async def open(self, options: Options) -> None:
        """Another conversation takes the place of this one. Raises `AgentError`."""
        ...

    def copy(self, data: str) -> bool:
        """Write an escape sequence; false where the terminal obeys none."""
        ...


class Commands:
    def __init__(self, place: Place) -> None:
        self._place = place
        self._own: dict[str, Callable[[str], Awaitable[None]]] = {
            "help": self._help,
            "copy": self._copy,
            "find": self._find,
            "theme": self._theme,
            "config": self._config,
            "login": self._login,
            "logout": self._logout,
            "resume": self._resume,
            "clear": self._clear,
            "exit": self._exit,
        }

    async def handle(self, text: str) -> bool:
        """Whether a line is done here. Raises `Left`."""
        from agentcli.commands.line import CommandLine, parse_line

        line = parse_line("/help" if text.strip() == "?" else text)
        if not isinstance(line, CommandLine) or line.command is None:
            return False
        command, arguments = line.command, line.arguments
        if command.name == "help" and arguments:
            return False
        work = self._own.get(command.name)
        if command.name == "memory" and arguments.split()[:1] == ["edit"]:
            work = self._edit_memory
        if work is None and not command.on_screen:
            return False
        try:
            await (work(arguments) if work is not None else self._elsewhere(command.name))
        except AgentError as error:
            self._place.session.note(str(error), "error")
        return True

    def _say(self, text: str) -> None:
        self._place.session.show([line(plain_text(text))])

    async def _help(self, _arguments: str) -> None:
        await self._place.session.run("/help")
        self._say(f"\n{KEYS}")

    async def _elsewhere(self, name: str) -> None:
        raise AgentError(f"/{name} is for the app. Start agentcli without --plain to use it.")

    async def _find(self, _text: str) -> None:
        raise AgentError("/find is for the app. Here everything is in the terminal's own scrollback: search there.")

    async def _theme(self, _name: str) -> None:
        raise AgentError("/theme is for the app. Here the terminal's own colours are used.")

    async def _exit(self, _arguments: str) -> None:
        raise Left

    # ------------------------------------------------------------------------------------------------- connecting

    async def _login(self, arguments: str) -> None:
        if arguments:
            raise AgentError("/login takes nothing: it asks for the key, without showing it.")
        if self._place.options is not None:
            await self._place.welcoming.open(self._place.options)

    async def _logout(self, _arguments: str) -> None:
        if self._place.options is not None:
            self._place.session.note(await self._place.welcoming.forget_key(self._place.options))

    # --------------------------------------------------------------------------------------------------- sessions

    async def _clear(self, _arguments: str) -> None:
        await self._open(None)
        self._place.session.note("A new session. /resume has the one before.")

    async def _open(self, resume: str | None) -> None:
        from agentcli.assemble.options import another_session

        if self._place.options is not None:
            await self._place.open(another_session(self._place.options, resume))

    async def _resume(self, wanted: str) -> None:
        if not wanted:
            wanted = await self.pick_session()
        if wanted:
            engine = self._place.session.engine
            if engine is not None and engine.session_id == wanted:
                raise AgentError("That is this session.")
            await self._open(wanted)

    async def pick_session(self) -> str:
        """The id of the session that the person chose from a list; "" for none."""
        from agentcli.session.find import list_sessions

        state_dir = self._place.state_dir
        if state_dir is None:
            raise AgentError("There is no folder for sessions: no home folder is known.")
        found = (await asyncio.to_thread(list_sessions, state_dir, self._place.cwd))[:_MOST_SESSIONS]
        if not found:
            raise AgentError("There is no earlier session in this folder.")
        for number, info in enumerate(found, 1):
            when = datetime.fromtimestamp(info.modified).strftime("%Y-%m-%d %H:%M")
            count = "" if info.message_count is None else f"  {counted(info.message_count, 'message')}"
            words = f"{plain_line(info.label, 100)}{count}"
            self._place.session.show([Line(((f"  {number:>2}  ", "mark"), (f"{when}  ", "quiet"), (words, "text")))])
        while True:
            text = await self._place.session.ask("Which one (a number, empty for none): ")
            if text is None or not text.strip():
                return ""
            if text.strip().isdecimal() and 1 <= int(text) <= len(found):
                return found[int(text) - 1].session_id
            self._place.session.note(f"Type a number from 1 to {len(found)}, or nothing.", "warning")

    # ----------------------------------------------------------------------------------------------------- others

    async def _edit_memory(self, arguments: str) -> None:
        from agentcli.commands.memory_files import find_file, read_file, write_file

        session = self._place.session
        if session.engine is None:
            raise AgentError("The session is still starting. Try again in a moment.")
        file = await asyncio.to_thread(find_file, session.engine, arguments.removeprefix("edit").strip())
        before = await asyncio.to_thread(read_file, file)
        after = await session.edit(before)
        session.note(await asyncio.to_thread(write_file, file, before, after))

    async def _config(self, _arguments: str) -> None:
        from agentcli.assemble import settings_for

        if self._place.options is None:
            return
        settings = await asyncio.to_thread(settings_for, self._place.options)
        rows = []
        for row in settings.describe():
            value = json.dumps(row.value, ensure_ascii=False, default=str)
            rows.append(f"{row.key} = {plain_line(value, 300)}  ({plain_line(row.source)})")
        self._say("\n".join(rows))

    async def _copy(self, arguments: str) -> None:
        """`/copy` the last answer, `/copy 2` the one before, `/copy code` its last code block, `/copy code 2` …"""
        found = re.fullmatch(r"(code)?\s*(\d{1,6})?", arguments.strip())
        if found is None:
            raise AgentError("/copy takes a number, code, or code and a number: /copy code 2")
        engine = self._place.session.engine
        messages = engine.messages if engine is not None else ()
        answers = [text for answer in answer_texts(messages) if (text := plain_text(answer).strip("\n"))]
        if found[1]:
            pieces, what = [code[2] for answer in answers for code in _FENCED.finditer(answer)], "code block"
        else:
            pieces, what = answers, "answer"
        place = int(found[2] or 1)
        if not 1 <= place <= len(pieces):
            raise AgentError(f"There is no {what} {place} from the end; there are {len(pieces)}.")
        data = base64.b64encode(pieces[-place].encode("utf-8", "replace")).decode("ascii")
        if not self._place.copy(f"\x1b]52;c;{data}\x07"):
            raise AgentError("This terminal cannot be asked to copy. Select the text with its own means.")
        size = counted(len(pieces[-place]), "character")
        self._place.session.note(f"Handed to the terminal's clipboard: {what}, {size}.")
