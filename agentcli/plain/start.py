"""Plain mode from its start to the exit code: wiring and life cycle.

The prompt is shown first. The engine is assembled in a thread meanwhile, and prompts sent before it is ready wait; the
SDK is imported even later.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli import __version__
from agentcli.config.paths import Paths
from agentcli.core.aio import start_task
from agentcli.core.errors import AgentError, UsageError
from agentcli.core.frozen import frozen
from agentcli.core.processes.exit_cleanup import end_process
from agentcli.interactive.completion import Completions
from agentcli.plain.front_end_choice import is_dumb_terminal
from agentcli.plain.line_reader import PromptCancelled, QuitRequested, Reader
from agentcli.plain.pieces import Gap, Piece, line, prose
from agentcli.plain.terminal import Keyboard, Signals, columns, find_encoding, wants_colours
from agentcli.plain.writer import BareWriter, ColourWriter, Sink, to_terminal

if TYPE_CHECKING:
    from agentcli.agent.engine import Engine
    from agentcli.assemble import Options
    from agentcli.interactive.drafts import DraftStore, History
    from agentcli.plain.front_end import PlainFrontEnd
    from agentcli.plain.session import PlainSession

TWICE_SECONDS = 2.0
"""Seconds within which a second Ctrl+C quits."""


@frozen(kw_only=True)
class PlainStart:
    """The command line's options for plain mode."""

    make_options: Callable[[], Options]
    """Checks the flags and imports the engine, so it is called after the first prompt is shown. Raises
    `UsageError`."""
    cwd: Path
    environ: Mapping[str, str]
    prompt: str = ""
    pick_session: bool = False
    """`--resume` without a session: ask which one."""
    goes_on: bool = False
    """`--resume SESSION` or `--continue`."""
    trust: bool = False
    verbose: bool = False


def run(start: PlainStart) -> int:
    """Run plain mode and return the exit code. Raises the error that ended the session, after restoring the
    terminal."""
    if not (os.isatty(0) and os.isatty(1)):
        raise UsageError("A session needs a terminal for input and output. Without one use: agentcli -p 'PROMPT'")
    bare = is_dumb_terminal(start.environ)
    keyboard = Keyboard()
    with contextlib.nullcontext() if bare else keyboard.quiet(), asyncio.Runner() as runner:
        plain = Plain(start, keyboard, bare=bare)
        code = runner.run(plain.execute())
        if plain.session.driver.stuck:
            # A task that cannot be stopped: the runner would wait for it forever.
            keyboard.restore()
            end_process(code)
        return code


class Plain:
    def __init__(self, start: PlainStart, keyboard: Keyboard, *, bare: bool) -> None:
        from agentcli.interactive.drafts import DraftStore, History, drafts_folder, history_path
        from agentcli.plain.front_end import PlainFrontEnd, PlainModelConnection
        from agentcli.plain.session import PlainSession

        self._start = start
        self._keyboard = keyboard
        self._bare = bare
        self._sink: Sink = to_terminal(1, find_encoding())
        self.cwd = start.cwd
        self.state_dir = Paths.from_environ(start.environ).state_dir
        self.options: Options | None = None
        self._history: History = History(history_path(self.state_dir, start.cwd))
        self._drafts: DraftStore = DraftStore(drafts_folder(self.state_dir, start.cwd))
        self._completions = Completions(lambda: self.session.engine, lambda: self._front_end)
        self._writer = (
            BareWriter(self._sink) if bare else ColourWriter(self._sink, columns, colours=wants_colours(start.environ))
        )
        # Before prompt_toolkit is imported, so that the user sees something at once.
        self._greet()
        self._reader = self._make_reader()
        self.session: PlainSession = PlainSession(self._reader, self._writer, verbose=start.verbose)
        self.model_connection = PlainModelConnection(self.session)
        self._front_end: PlainFrontEnd = PlainFrontEnd(self)
        self._opening: asyncio.Task[None] | None = None
        self._stopped_at = -TWICE_SECONDS
        self._warming: set[asyncio.Task[None]] = set()

    def _make_reader(self) -> Reader:
        if self._bare:
            from agentcli.interactive.drafts import Draft
            from agentcli.plain.line_reader import LineReader

            return LineReader(self._sink, self._writer.taken, self._mode, lambda text: self._history.add(Draft(text)))
        from agentcli.plain.prompt_reader import PromptCompleter, PromptReader, SharedHistory

        return PromptReader(
            SharedHistory(self._history),
            PromptCompleter(self._completions),
            self._mode,
            lambda: self.session.driver.cycle_mode(),  # noqa: PLW0108 -- the session is made with this reader
            self._keep_draft,
            environ=self._start.environ,
            cwd=self._start.cwd,
        )

    # ------------------------------------------------------------------------------------------------- life cycle

    async def execute(self) -> int:
        task = asyncio.current_task()
        assert task is not None
        signals = Signals(self._reader.signalled, task.cancel, self._again, self._keyboard.restore)
        signals.install()
        try:
            await self._converse()
        except QuitRequested:
            pass
        except asyncio.CancelledError:
            if signals.exit_code is None:
                raise
        finally:
            from agentcli.interactive.wording import describe_ended_commands, farewell

            engine = self.session.engine
            said = describe_ended_commands(engine) if engine is not None else ""
            if engine is not None and signals.exit_code is not None and self.session.busy:
                engine.session.store.mark_cut_off()
            await self._close()
            if engine is not None:
                said = await farewell(engine, said)
            signals.remove()
        if signals.exit_code is not None:
            return signals.exit_code
        if said:
            self.session.write_note(said)
        return 0

    def _again(self) -> None:
        """Restore the terminal mode after a SIGCONT."""
        if not self._bare and self.session.busy:
            # At a prompt, prompt_toolkit owns the mode.
            self._keyboard.again()

    async def _close(self) -> None:
        tasks = [task for task in (self._opening, *self._warming) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=1.0)
        await self._completions.aclose()
        if self.session.draft:
            self._keep_draft(self.session.draft)
        await self._drafts.aclose()
        await self.session.close()

    async def _converse(self) -> None:
        from agentcli.interactive.drafts import Draft

        await self._ask_for_trust()
        self._opening = start_task(self._open_first())
        if self._start.goes_on or self._start.pick_session:
            await self._opening
        if self._start.prompt:
            self.session.next.append(self._start.prompt)
        if not self._bare and (found := await asyncio.to_thread(self._drafts.load)) is not None:
            self.session.draft = found.expanded()
        if not (self._start.goes_on or self._start.pick_session or self._start.prompt):
            await self._tell_cut_off()
        while not self.session.left:
            text = await self._next()
            if not text.strip():
                continue
            self._drafts.discard(Draft(text))
            if self.session.is_a_key(text):
                continue
            if not self._opening.done() and not await self.session.wait_for(self._opening, text):
                continue
            self._opening.result()
            if not await self._front_end.run(text) and await self._can_be_answered(text):
                await self.session.run(text)

    def _greet(self) -> None:
        where = _show_path(self.cwd, self._start.environ)
        stop = "Ctrl+C stops" if self._bare else "Esc stops"
        self._writer.write(
            [
                line(f"agentcli {__version__} in {where}", "strong"),
                prose(f"/help lists commands · @ files · ! shell · {stop} · Ctrl+D quits", "quiet"),
            ]
        )

    async def _ask_for_trust(self) -> None:
        """A folder that brings settings along is asked about before anything of it is read. Raises `QuitRequested`."""
        from agentcli.config.trust import TrustStore

        if self._start.trust:
            return
        store = TrustStore.of(self._start.environ)
        state = store.state(self.cwd)
        if not state.needs_answer:
            return
        from agentcli.interactive.questions.kinds import EXIT, TRUSTED, ask_for_trust
        from agentcli.plain.questions import answer_question

        state = await asyncio.to_thread(store.state_for_review, self.cwd)
        answer = await answer_question(ask_for_trust(state, can_exit=True), self.session)
        if answer == TRUSTED:
            store.trust(state)
        if answer == EXIT:
            raise QuitRequested

    # --------------------------------------------------------------------------------------------------- prompting

    async def _next(self) -> str:
        """What is to be sent next. Raises `QuitRequested`, and what kept the engine from being there."""
        if self.session.next:
            text = self.session.next.popleft()
            self.session.echo(text)
            return text
        self._writer.write([Gap()])
        draft, self.session.draft = self.session.draft, ""
        try:
            return await self._read_prompt(draft)
        except PromptCancelled:
            self._writer.taken()
            now = asyncio.get_running_loop().time()
            if now - self._stopped_at < TWICE_SECONDS:
                raise QuitRequested from None
            self._stopped_at = now
            self.session.write_note("Ctrl+C again quits")
            return ""

    async def _read_prompt(self, draft: str) -> str:
        prompting = start_task(self._reader.prompt(draft))
        try:
            if self._opening is not None:
                # Also if it failed before the prompt: otherwise the error would only show after a line is sent.
                await asyncio.wait([prompting, self._opening], return_when=asyncio.FIRST_COMPLETED)
                if self._opening.done():
                    self._opening.result()
            text = await prompting
        finally:
            if not prompting.done():
                prompting.cancel()
                await asyncio.wait([prompting])
            self._writer.taken()
        return text

    async def _can_be_answered(self, text: str) -> bool:
        """Connect a model first if none can be reached. False: there is still none, and `text` is kept for the next
        prompt."""
        from agentcli.interactive.drafts import Draft
        from agentcli.interactive.submission import needs_model

        if not self.model_connection.is_unreachable or not needs_model(Draft(text), self.session.engine):
            return True
        assert self.options is not None
        try:
            await self.model_connection.open(self.options, waiting=True)
        except AgentError as error:
            self.session.write_note(str(error), "error")
        if self.model_connection.is_unreachable:
            self.session.draft = text
            return False
        return True

    # --------------------------------------------------------------------------------------------------- the engine

    async def _open_first(self) -> None:
        options = await asyncio.to_thread(self._start.make_options)
        self.options = options
        if self._start.pick_session:
            from agentcli.assemble.options import another_session
            from agentcli.commands.session import pick_session

            try:
                if choice := await pick_session(self._front_end):
                    options = another_session(options, choice.session.session_id)
            except AgentError as error:
                self.session.write_note(str(error))
        await self._use(await self.model_connection.new_engine(options))

    async def _tell_cut_off(self) -> None:
        """Tell how to continue a session that was cut off."""
        from agentcli.interactive.wording import cut_off
        from agentcli.session.cut_off import take_cut_off

        found = await asyncio.to_thread(take_cut_off, self.state_dir, self.cwd) if self.state_dir is not None else None
        if found is not None:
            # Before the first prompt: keys that are pressed while something is printed above one may be misread.
            self.session.write([prose(f"{cut_off(found)} /resume {found.session_id} continues it.", "text", "· ")])

    async def open(self, options: Options) -> None:
        from agentcli.interactive.driver import replace_engine

        engine = await replace_engine(self.session.engine, options, self.model_connection.new_engine)
        await self.session.close("resume" if engine.message_count else "clear")
        await self._use(engine)

    async def _use(self, engine: Engine) -> None:
        from agentcli.interactive.completion import IndexedFiles
        from agentcli.plain.front_end import NOT_CONNECTED

        await self._completions.use(IndexedFiles(engine.files.index))

        past: list[Piece] = []
        if engine.message_count:
            from agentcli.plain.printer import past_of

            past = await past_of(engine, verbose=self._start.verbose)
        self.session.open(engine, past)
        self.model_connection.engine_changed()
        if self.model_connection.is_unreachable:
            self.session.print([prose(NOT_CONNECTED, "warning", "! ", "warning")])
        await self.session.printed()
        warming = start_task(self._warm(engine))
        self._warming.add(warming)
        warming.add_done_callback(self._warming.discard)

    async def _warm(self, engine: Engine) -> None:
        with contextlib.suppress(AgentError):
            await engine.warm()
        if isinstance(self._writer, ColourWriter):
            await asyncio.to_thread(self._writer.warm_up)

    # ----------------------------------------------------------------------------------------- around the prompt

    def _keep_draft(self, text: str) -> None:
        """Save the prompt's text, so that it survives any end of the program."""
        from agentcli.interactive.drafts import Draft

        self._drafts.changed(lambda: Draft(text))

    async def copy(self, text: str) -> str:
        """Copy text. Returns a sentence that says how, or why not."""
        from agentcli.core.terminal import Terminal
        from agentcli.interactive.clipboard import copy

        terminal = Terminal.from_environ(self._start.environ, sys.platform)
        return await copy(text, terminal, self._sink, (self._start.cwd,))

    def _mode(self) -> str:
        """Text shown before the prompt: the permission mode, unless it is the default."""
        engine = self.session.engine
        label = "default" if engine is None else engine.permissions.mode.label
        return "" if label == "default" else label


def _show_path(path: Path, environ: Mapping[str, str]) -> str:
    from agentcli.core.text.plaintext import visible_text

    home, text = environ.get("HOME", ""), str(path)
    inside = home and (text == home or text.startswith(f"{home}/"))
    return visible_text(f"~{text[len(home) :]}" if inside else text)
