"""The prompt on prompt_toolkit, and its keys while a submission runs.

No prompt is shown then: typed text is kept unseen for the next prompt, Enter queues it, Esc and Ctrl+C interrupt. So a
reply is only ever appended, and a screen reader reads each line once.
"""

from __future__ import annotations

import asyncio
import re
import select
import sys
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit.application import in_terminal, run_in_terminal
from prompt_toolkit.application.current import set_app
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import completion_is_selected, emacs_mode, has_completions, has_focus
from prompt_toolkit.history import DummyHistory
from prompt_toolkit.history import History as ToolkitHistory
from prompt_toolkit.input.typeahead import get_typeahead
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyBindings, KeyPress, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.output.defaults import create_output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.shortcuts import CompleteStyle, PromptSession

from agentcli.core.errors import AgentError
from agentcli.core.text.plaintext import plain_text, show_command
from agentcli.interactive.completion import Completions, Menu, argument_menu, command_menu, file_menu, target_at
from agentcli.interactive.drafts import Draft, History
from agentcli.interactive.editor import edit_in_editor
from agentcli.plain.line_reader import PromptCancelled, QuitRequested
from agentcli.plain.terminal import wants_vi

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prompt_toolkit.buffer import Buffer
    from prompt_toolkit.input import Input
    from prompt_toolkit.key_binding.key_processor import KeyProcessor
    from prompt_toolkit.output import Output

    from agentcli.plain.session import PlainSession

PROMPT = "❯ "
_ESCAPE_SECONDS = 0.05
"""How long an Esc may be the beginning of another key; a slow line needs that long for one."""
_SEQUENCE_SECONDS = 1.0
"""How long the first key of a sequence such as Ctrl+X Ctrl+E waits for the second. An Esc does not wait that long: it
would take the next character that is typed with it."""
_PAUSE_SECONDS = 0.8
"""Nobody may have typed for so long before a question takes keys for an answer: who types on answers nothing."""
_BUFFER = "DEFAULT_BUFFER"
_REPORT = re.compile(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # colours, titles
    r"|\x1bP[^\x1b]*\x1b\\"  # capabilities
    r"|\x1b\[(?:[IO]|\?[\d;]*(?:c|u|\$y)|\d+;\d+R)"  # focus, attributes, modes, the cursor
)


class KeysOnly(Vt100Input):
    """Unrequested terminal reports are no keys: an Esc in one would stop the work, its bell open an editor."""

    def read_keys(self) -> list[KeyPress]:
        self.vt100_parser.feed(_REPORT.sub("", self.stdin_reader.read()))
        keys, self._buffer = self._buffer, []
        return keys


class PromptReader:
    """`mode`: what stands before the prompt, "" for nothing. There is no toolbar: a screen reader would read it out
    with every prompt. `changed` hears of all that is typed there."""

    def __init__(
        self,
        history: ToolkitHistory,
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
            # The terminal is asked nothing: an answer that comes late would be read as keys.
            self._output.enable_cpr = False
        self._session: PromptSession[str] = PromptSession(
            lambda: f"{mode()} {PROMPT}".lstrip(),  # noqa: PLW0108 -- the mode as it is each time
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
        self._question: PromptSession[str | None] | None = None
        """The open question."""
        self._session.app.key_processor.after_key_press += self._limit_sequence
        self._changed = changed
        self._session.default_buffer.on_text_changed += lambda buffer: changed(buffer.text)
        self._typed = ""
        self._typed_at = 0.0
        self._listener: PlainSession | None = None
        self._flushing: asyncio.TimerHandle | None = None

    # ----------------------------------------------------------------------------------------------- the contract

    async def prompt(self, draft: str = "") -> str:
        try:
            return await self._session.prompt_async(default=draft, handle_sigint=False, set_exception_handler=False)
        except KeyboardInterrupt:
            raise PromptCancelled from None
        except EOFError:
            raise QuitRequested from None

    async def ask(self, question: str, *, hidden: bool = False) -> str | None:
        # Made first: keys that come meanwhile must not answer either.
        session = self._make_question(hidden)
        await self._quiet_keys()
        self._keep_typed(forget=hidden)
        self._question = session
        try:
            return await session.prompt_async(question, handle_sigint=False, set_exception_handler=False)
        except KeyboardInterrupt:
            return None
        except EOFError:
            if self._input.closed:
                raise QuitRequested from None
            return None
        finally:
            self._question = None
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
        return session

    @contextmanager
    def working(self, listener: PlainSession) -> Iterator[None]:
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
            self._input.flush_keys()  # an Esc at the very end would make the next key one with Alt

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
        """The one that stands there and takes keys."""
        for session in (self._session, self._question):
            future = session.app.future if session is not None and session.app.is_running else None
            if future is not None and not future.done():
                return session
        return None

    async def edit(self, text: str) -> str:
        with self._input.detach(), self._input.cooked_mode():
            return await edit_in_editor(text, self._environ, self._cwd)

    # ------------------------------------------------------------------------------------------- while work goes on

    async def _quiet_keys(self) -> None:
        """Until nobody has typed for a moment."""
        while (pause := self._typed_at + _PAUSE_SECONDS - time.monotonic()) > 0:  # noqa: ASYNC110 -- keys extend it
            await asyncio.sleep(pause)

    def _keep_typed(self, *, forget: bool) -> None:
        """What was typed before a question stood there must not answer it. It stands in the next prompt, unless it may
        have been meant to stay unseen."""
        keys = get_typeahead(self._input)
        # As often as there is something: each time only so much is read.
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
        """What was held back as the beginning of a key was a whole one."""
        if self._listener is not None:
            self._take(self._input.flush_keys())

    def _take(self, keys: Sequence[KeyPress]) -> None:
        if len(keys) == 2 and keys[0].key == Keys.Escape and keys[1].key != Keys.Escape:
            # One key with Alt. Only that for another line means something here.
            self._typed += "\n" if keys[1].key == Keys.ControlM else ""
            return
        for key in keys:
            if self._listener is not None:
                self._take_one(key, self._listener)

    def _take_one(self, press: KeyPress, listener: PlainSession) -> None:
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
                buffer.text = await edit_in_editor(buffer.text, self._environ, self._cwd)
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


_MAX_FILES = 20
_SEARCH_SECONDS = 0.5
"""Time limit of a file search; after it the best matches so far are offered."""


class SharedHistory(ToolkitHistory):
    """The prompt history, in the same file as the app's."""

    def __init__(self, history: History) -> None:
        super().__init__()
        self._history = history

    def load_history_strings(self) -> Iterable[str]:
        return [draft.expanded() for draft in reversed(self._history.entries)]

    def store_string(self, string: str) -> None:
        self._history.add(Draft(string))


class PromptCompleter(Completer):
    """Completes commands after a slash, their arguments, and files after an @."""

    def __init__(self, completions: Completions) -> None:
        self._completions = completions

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Unused: the file search needs the event loop."""
        return ()

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        column, known = document.cursor_position_col, self._completions
        target = target_at(document.current_line, column, first_line=document.cursor_position_row == 0)
        if target is None:
            return
        menu: Menu | None
        if target.kind == "file":
            known.begin()
            menu = file_menu(target, await known.all_files(target.query, _MAX_FILES, _SEARCH_SECONDS))
        elif target.kind == "command":
            menu = command_menu(target, known.commands)
        else:
            values = await known.late_choices(target.command, target.query)
            menu = argument_menu(target, known.commands, lambda name: [*known.choices(name), *values])
        for candidate in menu.candidates if menu is not None else ():
            yield Completion(
                candidate.insert,
                start_position=target.start - column,
                display=show_command(f"{candidate.label} {candidate.hint}".rstrip()),
                display_meta=show_command(candidate.detail),
            )
