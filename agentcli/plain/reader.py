"""The prompt on prompt_toolkit, and the keys during work.

No prompt is shown during work: typed text is kept without echo and put into the next prompt, Enter queues it, Esc and
Ctrl+C stop the work. So replies are only ever appended, and a screen reader reads each line once.
"""

from __future__ import annotations

import asyncio
import re
import select
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit.application import in_terminal, run_in_terminal
from prompt_toolkit.application.current import set_app
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import completion_is_selected, emacs_mode, has_completions, has_focus
from prompt_toolkit.history import DummyHistory, History
from prompt_toolkit.input.typeahead import get_typeahead
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyBindings, KeyPress, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.output.defaults import create_output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.shortcuts import CompleteStyle, PromptSession

from agentcli.core.errors import AgentError
from agentcli.core.plaintext import plain_text
from agentcli.interactive.editor import NotWritten, edited
from agentcli.plain.reading import Left, Listener, Stopped
from agentcli.plain.terminal import wants_vi

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prompt_toolkit.buffer import Buffer
    from prompt_toolkit.completion import Completer
    from prompt_toolkit.input import Input
    from prompt_toolkit.key_binding.key_processor import KeyProcessor
    from prompt_toolkit.output import Output

PROMPT = "❯ "
_ESCAPE_SECONDS = 0.05
"""Seconds to wait after an Esc for the rest of a key sequence. A slow connection needs that long."""
_SEQUENCE_SECONDS = 1.0
"""Seconds that the first key of a sequence such as Ctrl+X Ctrl+E waits for the second. Esc waits less: it would swallow
the next typed character."""
_PAUSE_SECONDS = 0.8
"""Seconds without a key before a question accepts an answer, so that a user who is still typing does not answer it."""
_BUFFER = "DEFAULT_BUFFER"
_REPORT = re.compile(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # colours, titles
    r"|\x1bP[^\x1b]*\x1b\\"  # capabilities
    r"|\x1b\[(?:[IO]|\?[\d;]*(?:c|u|\$y)|\d+;\d+R)"  # focus, attributes, modes, the cursor
)


class KeysOnly(Vt100Input):
    """Input without unrequested terminal reports: the Esc of a report would stop the work, its bell open an editor."""

    def read_keys(self) -> list[KeyPress]:
        self.vt100_parser.feed(_REPORT.sub("", self.stdin_reader.read()))
        keys, self._buffer = self._buffer, []
        return keys


class PromptReader:
    """A `Reader` on prompt_toolkit.

    `mode` returns the text shown before the prompt, or "". `changed` is called with the prompt's text after every
    change. There is no toolbar: a screen reader would read it out with every prompt."""

    def __init__(
        self,
        history: History,
        completer: Completer,
        mode: Callable[[], str],
        cycle_mode: Callable[[], None],
        changed: Callable[[str], None],
        *,
        environ: Mapping[str, str],
        cwd: Path,
    ) -> None:
        self._environ, self._cwd = environ, cwd
        self._input: Input = KeysOnly(sys.stdin)
        self._output: Output = create_output()
        if isinstance(self._output, Vt100_Output):
            # Do not query the cursor position: a late answer would be read as keys.
            self._output.enable_cpr = False
        self._session: PromptSession[str] = PromptSession(
            lambda: f"{mode()} {PROMPT}".lstrip(),  # noqa: PLW0108 -- read the mode each time
            multiline=True,
            history=history,
            completer=completer,
            complete_while_typing=False,
            complete_style=CompleteStyle.COLUMN,
            prompt_continuation="  ",
            key_bindings=self._prompt_keys(cycle_mode),
            editing_mode=EditingMode.VI if wants_vi(environ) else EditingMode.EMACS,
            enable_suspend=True,
            input=self._input,
            output=self._output,
        )
        self._session.app.ttimeoutlen = _ESCAPE_SECONDS
        self._questions: dict[bool, PromptSession[str | None]] = {}
        """Prompts for questions, by whether the answer is hidden. Made on first use: each has 600 key bindings."""
        self._session.app.key_processor.after_key_press += self._limit_sequence
        self._changed = changed
        self._session.default_buffer.on_text_changed += lambda buffer: changed(buffer.text)
        self._typed = ""
        self._typed_at = 0.0
        self._listener: Listener | None = None
        self._flushing: asyncio.TimerHandle | None = None

    # ----------------------------------------------------------------------------------------------- the contract

    async def prompt(self, draft: str = "") -> str:
        try:
            return await self._session.prompt_async(default=draft, handle_sigint=False, set_exception_handler=False)
        except KeyboardInterrupt:
            raise Stopped from None
        except EOFError:
            raise Left from None

    async def ask(self, question: str, *, hidden: bool = False) -> str | None:
        # First, because it takes time: keys that arrive meanwhile must not answer either.
        session = self._questions.get(hidden) or self._make_question(hidden)
        await self._quiet_keys()
        self._keep_typed(forget=hidden)
        try:
            return await session.prompt_async(question, handle_sigint=False, set_exception_handler=False)
        except KeyboardInterrupt:
            return None
        except EOFError:
            if self._input.closed:
                raise Left from None
            return None
        finally:
            if self._listener is not None:
                self._enable_paste(True)

    def _make_question(self, hidden: bool) -> PromptSession[str | None]:
        session: PromptSession[str | None] = PromptSession(
            history=DummyHistory(),
            key_bindings=_question_keys(),
            is_password=hidden,
            input=self._input,
            output=self._output,
        )
        session.app.ttimeoutlen = _ESCAPE_SECONDS
        self._questions[hidden] = session
        return session

    @contextmanager
    def working(self, listener: Listener) -> Iterator[None]:
        self._listener = listener
        self._enable_paste(True)
        try:
            with self._input.attach(self._keys_came):
                self._take(get_typeahead(self._input))
                yield
        finally:
            self._listener = None
            self._enable_paste(False)
            if self._flushing is not None:
                self._flushing.cancel()
            self._input.flush_keys()  # a pending Esc would turn the next key into Alt+key

    def take_typed(self) -> str:
        typed, self._typed = self._typed, ""
        return typed

    async def above(self, write: Callable[[], None]) -> None:
        session = self._open
        if session is None:
            write()
            return
        with set_app(session.app):
            await run_in_terminal(write)

    def signalled(self) -> None:
        session = self._open
        if session is None:
            if self._listener is not None:
                self._listener.interrupt()
        elif session is self._session and session.default_buffer.text:
            self._clear(session.default_buffer)
            session.app.invalidate()
        else:
            session.app.exit(exception=KeyboardInterrupt)

    @property
    def _open(self) -> PromptSession[str] | PromptSession[str | None] | None:
        """The prompt that is shown and accepts keys, if any."""
        sessions: list[PromptSession[str] | PromptSession[str | None]] = [self._session, *self._questions.values()]
        for session in sessions:
            if session.app.is_running and session.app.future is not None and not session.app.future.done():
                return session
        return None

    async def edit(self, text: str) -> str:
        with self._input.detach(), self._input.cooked_mode():
            return await edited_outside(text, self._environ, self._cwd)

    # ------------------------------------------------------------------------------------------------- during work

    async def _quiet_keys(self) -> None:
        """Wait until no key was pressed for `_PAUSE_SECONDS`."""
        while (pause := self._typed_at + _PAUSE_SECONDS - time.monotonic()) > 0:  # noqa: ASYNC110 -- keys extend it
            await asyncio.sleep(pause)

    def _keep_typed(self, *, forget: bool) -> None:
        """Keep text typed before a question was shown, which must not answer it, for the next prompt. `forget` drops
        it, because it may be a secret."""
        keys = get_typeahead(self._input)
        # In a loop, because one read returns a limited number of bytes.
        while not self._input.closed and select.select([self._input.fileno()], [], [], 0)[0]:
            keys += self._input.read_keys()
        for press in keys if not forget else ():
            if press.key == Keys.ControlM:
                self._typed += "\n"
            elif press.key == Keys.BracketedPaste or not isinstance(press.key, Keys):
                self._typed += plain_text(press.data)

    def _enable_paste(self, on: bool) -> None:
        (self._output.enable_bracketed_paste if on else self._output.disable_bracketed_paste)()
        self._output.flush()

    def _keys_came(self) -> None:
        self._take(self._input.read_keys())
        if self._input.closed:
            if self._listener is not None:
                self._listener.interrupt()
            return
        if self._flushing is not None:
            self._flushing.cancel()
        self._flushing = asyncio.get_running_loop().call_later(_ESCAPE_SECONDS, self._flush)

    def _flush(self) -> None:
        """Take a pending Esc as a key of its own, because no sequence followed."""
        if self._listener is not None:
            self._take(self._input.flush_keys())

    def _take(self, keys: Sequence[KeyPress]) -> None:
        if len(keys) == 2 and keys[0].key == Keys.Escape and keys[1].key != Keys.Escape:
            # Alt+key. Only Alt+Enter, for a new line, has a meaning here.
            self._typed += "\n" if keys[1].key == Keys.ControlM else ""
            return
        for key in keys:
            if self._listener is not None:
                self._take_one(key, self._listener)

    def _take_one(self, press: KeyPress, listener: Listener) -> None:
        match press.key:
            case Keys.Escape | Keys.ControlC:
                listener.interrupt()
                return
            case Keys.ControlM:
                text, self._typed = self._typed, ""
                listener.line(text)
            case Keys.ControlB:
                listener.to_background()
            case Keys.ControlJ:
                self._typed += "\n"
            case Keys.ControlH:
                self._typed = self._typed[:-1]
            case Keys.ControlU:
                self._typed = ""
            case Keys.BracketedPaste:
                self._typed += plain_text(press.data)
            case key if not isinstance(key, Keys):
                self._typed += key
            case _:
                return
        self._typed_at = time.monotonic()

    # ------------------------------------------------------------------------------------------------ at the prompt

    def _prompt_keys(self, cycle_mode: Callable[[], None]) -> KeyBindings:
        keys = KeyBindings()
        here = has_focus(_BUFFER)

        @keys.add("enter", filter=here & ~(has_completions & completion_is_selected))
        def _(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            if buffer.document.current_line_before_cursor.endswith("\\"):
                buffer.delete_before_cursor()
                buffer.insert_text("\n")
            else:
                buffer.validate_and_handle()

        @keys.add("enter", filter=here & has_completions & completion_is_selected)
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.complete_state = None

        @keys.add("c-j", filter=here)
        @keys.add("escape", "enter", filter=here & emacs_mode)  # in vi these are two keys
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("c-c", filter=here)
        def _(event: KeyPressEvent) -> None:
            if event.current_buffer.text:
                self._clear(event.current_buffer)
            else:
                event.app.exit(exception=KeyboardInterrupt)

        @keys.add("s-tab", filter=here & ~has_completions)
        def _(event: KeyPressEvent) -> None:
            cycle_mode()
            event.app.invalidate()

        @keys.add("c-x", "c-e", filter=here)
        @keys.add("c-g", filter=here)
        def _(event: KeyPressEvent) -> None:
            event.app.create_background_task(self._edit_prompt(event))

        return keys

    def _limit_sequence(self, processor: KeyProcessor) -> None:
        is_escape = [press.key for press in processor.key_buffer] == [Keys.Escape]
        self._session.app.timeoutlen = _ESCAPE_SECONDS if is_escape else _SEQUENCE_SECONDS

    def _clear(self, buffer: Buffer) -> None:
        buffer.reset()
        self._changed("")

    async def _edit_prompt(self, event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        async with in_terminal():
            try:
                buffer.text = await edited_outside(buffer.text, self._environ, self._cwd)
                buffer.cursor_position = len(buffer.text)
            except AgentError as error:
                self._output.write(f"{error}\n")
                self._output.flush()


def _question_keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("escape", eager=True)
    @keys.add("c-c")
    @keys.add("c-d")
    def _(event: KeyPressEvent) -> None:
        event.app.exit(result=None)

    return keys


async def edited_outside(text: str, environ: Mapping[str, str], cwd: Path) -> str:
    """Let the user edit the text in their own editor. Raises `AgentError` with the reason if there is no new text."""
    outcome = await edited(text, environ, cwd)
    if isinstance(outcome, NotWritten):
        raise AgentError(outcome.reason)
    return outcome.text
