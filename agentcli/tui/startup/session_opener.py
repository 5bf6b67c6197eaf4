"""Opens sessions and connects a model.

The first session opens after the first frame, later ones for `/resume` and `/clear`. The dialog that connects a model
opens automatically if none can be reached: at the start, and when a prompt is sent, which waits in the box meanwhile.
`/login` opens it at any time.
"""

from __future__ import annotations

import asyncio
import contextlib
from time import monotonic
from typing import TYPE_CHECKING

from agentcli.core import events as ev
from agentcli.core.errors import AgentError
from agentcli.interactive.drafts import Draft
from agentcli.interactive.driver import replace_engine
from agentcli.interactive.login.model_access import ModelAccess
from agentcli.tui.keys import format_keys
from agentcli.tui.model import WELCOME, Above, Add, NoticeItem, Remove, Replace
from agentcli.tui.start import DEMO_WANTED
from agentcli.tui.startup import garbage_collection

if TYPE_CHECKING:
    from agentcli.agent.engine import Engine
    from agentcli.assemble import Options
    from agentcli.interactive.login.welcome import Welcome
    from agentcli.interactive.login.welcome_actions import WelcomeActions
    from agentcli.session.base import Rewind
    from agentcli.tui.app import AgentApp
    from agentcli.tui.start import Start

MAX_TAKE_OVER_SECONDS = 2.5
"""Seconds to wait until the app gets the keys from the instant prompt."""


class SessionOpener:
    def __init__(self, app: AgentApp, start: Start) -> None:
        self._app = app
        self._start = start
        self._opening = asyncio.Lock()
        self._keys_taken_over = asyncio.Event()
        self.options: Options | None = None
        """None until the flags are checked, which is after the first frame."""
        self.options_ready = asyncio.Event()
        self.engine_ready = asyncio.Event()
        self._reads_earlier = False
        """Whether the beginning of a long session is still being read."""
        self._wanted_prompt: tuple[str, str] | None = None
        """Id and text of a prompt to scroll to when it has been read."""
        self._is_index_due = False

    @property
    def picks_session(self) -> bool:
        """Whether the user still has to pick the first session (`--resume` without a name)."""
        return self._start.pick_session and self._app.chat.session.engine is None

    def keys_taken_over(self) -> None:
        """The app now gets all keys that were typed before it was there."""
        self._keys_taken_over.set()

    async def open_first(self) -> None:
        """Open the session that the command line asks for, and send its prompt."""
        app, start = self._app, self._start
        await self._preview_resumed()
        if (draft := await asyncio.to_thread(app.drafts.load)) is not None and app.chat.prompt.is_empty:
            app.chat.prompt.load(draft)
        options = await asyncio.to_thread(start.make_options)
        with contextlib.suppress(TimeoutError):
            # Keys typed before a question is shown must not answer it. Before a tour nothing is asked.
            asks_nothing = app.is_headless or start.tour is not None
            await asyncio.wait_for(self._keys_taken_over.wait(), 0 if asks_nothing else MAX_TAKE_OVER_SECONDS)
        if not await self._is_trust_settled(options):
            app.leave()
            return
        self.options = options
        self.options_ready.set()
        if start.pick_session:
            app.chat.actions.run("resume")
        else:
            async with self._opening:
                await self._start_engine(options)
        if start.prompt:
            app.chat.send(Draft(start.prompt))
        elif not (start.pick_session or start.resume or start.continue_latest or start.tour or not options.persist):
            await self._offer_cut_off()

    async def _offer_cut_off(self) -> None:
        """Offer to continue a session that was cut off: Tab accepts, any other key dismisses it."""
        from agentcli.interactive.wording import cut_off
        from agentcli.session.cut_off import take_cut_off

        chat, state_dir = self._app.chat, self._app.preferences.paths.state_dir
        cwd, typed = self._app.preferences.cwd, chat.prompt.last_typed
        found = await asyncio.to_thread(take_cut_off, state_dir, cwd) if state_dir is not None else None
        if found is None:
            return
        key = (self._app.preferences.keymap or {}).get("prompt.complete", "tab")

        def notice(how: str) -> NoticeItem:
            return NoticeItem(id="cut-off", text=f"{cut_off(found)} {how} continues it.")

        async def accept() -> None:
            await self.open(found.session_id)
            chat.prompt.suggest("continue")

        def settle(accepts: bool) -> None:
            chat.apply([Replace(notice("/resume"))])
            if accepts:
                chat.actions.start(accept())

        chat.apply([Add(notice(format_keys(key)))])
        chat.prompt.offer = settle
        if chat.prompt.last_typed > typed:
            # Tab may complete what is being typed.
            settle(accepts=False)

    async def open(self, resume: str | None = None, rewind: Rewind | None = None) -> None:
        """Replace the session by the one named `resume`, or by a new one; `rewind`: where that one continues."""
        from agentcli.assemble.options import another_session

        if self.options is None:
            return
        session = self._app.chat.session
        async with self._opening:
            session.hold(True)
            self._wanted_prompt = None
            try:
                await self._start_engine(another_session(self.options, resume, rewind))
                self._is_index_due = True
            finally:
                session.hold(False)

    def show_prompt(self, prompt_id: str, text: str) -> None:
        """Scroll to a prompt of the open session, also if it has not been read yet."""
        self._wanted_prompt = (prompt_id, text)
        self._scroll_to_wanted()

    def _scroll_to_wanted(self) -> None:
        chat, wanted = self._app.chat, self._wanted_prompt
        if wanted is None:
            return
        if chat.transcript.show_prompt(*wanted):
            self._wanted_prompt = None
        elif not self._reads_earlier:
            self._wanted_prompt = None
            chat.hint("This prompt is on another branch: /tree shows it")

    async def wait_for_engine(self) -> Engine:
        """Wait for the first session, and while one session replaces another."""
        await self.engine_ready.wait()
        async with self._opening:
            engine = self._app.chat.session.engine
        if engine is None:
            raise AgentError("No session is open.")
        return engine

    async def _preview_resumed(self) -> None:
        """Show the end of the session that is resumed: reading all of it takes much longer."""
        start, state, chat = self._start, self._app.preferences.paths.state_dir, self._app.chat
        if state is not None and (start.resume or start.continue_latest):
            from agentcli.tui.resume import end_of_session

            items = await asyncio.to_thread(end_of_session, state, self._app.preferences.cwd, start.resume)
            if items and chat.session.engine is None:
                chat.apply([Remove(WELCOME)])
                chat.session.preview(items)

    async def _is_trust_settled(self, options: Options) -> bool:
        """Ask whether to trust the settings of the folder, if that is open. False: the user wants to quit."""
        from agentcli.config.trust import TrustStore
        from agentcli.interactive.questions.kinds import EXIT, TRUSTED, ask_for_trust
        from agentcli.tui.screens.question import QuestionDialog

        if options.trust:
            return True
        store = TrustStore.of(self._app.preferences.environ)
        state = await asyncio.to_thread(store.state, self._app.preferences.cwd)
        if not state.needs_answer:
            return True
        state = await asyncio.to_thread(store.state_for_review, self._app.preferences.cwd)
        dialog = QuestionDialog(ask_for_trust(state, can_exit=True))
        dialog.typed = lambda: self._app.chat.prompt.last_typed
        answer = await self._app.ask_on_screen(dialog)
        if answer == TRUSTED:
            await asyncio.to_thread(store.trust, state)
        return answer is not None and answer != EXIT

    async def _start_engine(self, options: Options) -> None:
        from agentcli.interactive.completion import IndexedFiles
        from agentcli.tui.resume import past_of

        app, chat, model_connection = self._app, self._app.chat, self._app.model_connection
        try:
            engine = await replace_engine(chat.session.engine, options, model_connection.new_engine)
        except AgentError as error:
            if chat.session.engine is not None:
                raise
            app.failure = error
            app.leave(2)
            return
        past, earlier = await asyncio.to_thread(past_of, engine)
        is_first = chat.session.engine is None and not app.is_headless
        if is_first:
            garbage_collection.freeze_all()
        if past:
            chat.apply([Remove(WELCOME)])
        model_connection.engine_changed()
        if chat.session.engine is None:
            due = chat.session.withdraw_due() if model_connection.is_unreachable else []
            chat.session.open(engine, past)
            if model_connection.is_unreachable:
                model_connection.begin(due)
        else:
            await chat.session.replace(engine, past)
            garbage_collection.mark_session_closed()
            if not past:
                chat.apply([Above((app.welcome_item(),))])
        app.themes.watch_plugins(engine)
        self.engine_ready.set()
        self._reads_earlier = has_more = bool(earlier) or engine.earlier_part is not None
        chat.finder.expect_more(has_more)
        if has_more:
            app.run_worker(self._show_earlier(engine, earlier), exit_on_error=False, group="earlier")
        await app.completions.use(IndexedFiles(engine.files.index))
        app.run_worker(self._warm(engine, is_first), exit_on_error=False, group="warm")

    async def _show_earlier(self, engine: Engine, earlier: list[ev.Event]) -> None:
        """Show the beginning of a long session, for which its first prompt does not wait."""
        from agentcli.tui.resume import EarlierPast

        chat = self._app.chat
        async for operation in EarlierPast(engine, earlier).operations():
            if chat.session.engine is not engine:
                return
            chat.apply([operation])
            self._scroll_to_wanted()
        if chat.session.engine is engine:
            chat.finder.expect_more(False)
            self._reads_earlier = False
            self._scroll_to_wanted()

    async def _warm(self, engine: Engine, is_first: bool) -> None:
        """Import and connect what the first prompt needs."""
        from agentcli.tui.blocks.answer import warm_up

        await asyncio.to_thread(warm_up)
        with contextlib.suppress(AgentError):
            await engine.warm()
        self._app.themes.plugins_loaded()
        if is_first:
            garbage_collection.shorten_pauses()
            self._app.set_interval(garbage_collection.AWAY_SECONDS, self._collect_while_away)

    def _collect_while_away(self) -> None:
        if self._is_away:
            garbage_collection.collect_all()
            if self._is_index_due:
                self._app.run_worker(self._update_index(), exit_on_error=False, group="index")

    @property
    def _is_away(self) -> bool:
        return monotonic() - self._app.chat.prompt.last_typed > garbage_collection.AWAY_SECONDS

    async def _update_index(self) -> None:
        """Bring the search index up to date after a session was left, until the user is back or a prompt runs."""
        from agentcli.session.search_index import IndexUnavailable, NotNeeded, Pace, SessionIndex

        paths, chat = self._app.preferences.paths, self._app.chat
        if paths.state_dir is None:
            return
        pace = Pace(lambda: self._is_away and not chat.session.busy and self._app.is_running)
        self._is_index_due = False
        try:
            await asyncio.to_thread(SessionIndex(paths.index_dir, paths.state_dir).update, pace)
        except NotNeeded:
            self._is_index_due = True
        except IndexUnavailable:
            pass  # the list of sessions reports it


class ModelConnection(ModelAccess):
    def __init__(self, app: AgentApp) -> None:
        super().__init__()
        self._app = app
        self._is_open = False
        self._sent: Draft | None = None

    def begin(self, due: list[Draft]) -> None:
        """Open the dialog at the start, if no model is reachable. `due`: drafts sent before that was known."""
        if due[:-1]:
            self._app.chat.give_back(due[:-1])
        self._app.chat.actions.start(self.open(due[-1] if due else None))

    async def open(self, sent: Draft | None = None, key: str = "") -> None:
        """`sent`: the prompt that needs a model and stays in the box. `key`: an API key pasted into the box."""
        if sent is not None:
            self._sent = sent
            self._app.chat.give_back([sent])
        if self._is_open or self._app.opener.options is None:
            return
        self._is_open = True
        try:
            connecting = await self.ready(self._app.opener.options)
            welcome = await self._ask(connecting, key, is_automatic=sent is None and not key)
            if welcome is not None:
                await self._after(connecting, welcome)
        finally:
            self._is_open, self._sent = False, None

    async def _ask(self, connecting: WelcomeActions, key: str, *, is_automatic: bool) -> Welcome | None:
        from agentcli.tui.screens.welcome import WelcomeDialog

        app, chat = self._app, self._app.chat
        waiting = self._sent is not None
        welcome = await asyncio.to_thread(lambda: connecting.begin(demo=app.has_demo, waiting=waiting))
        dialog = WelcomeDialog(welcome, connecting.servers, connecting.do, key=key)
        if is_automatic:
            dialog.typed = lambda: chat.prompt.last_typed
            dialog.draft = lambda: chat.prompt.draft.text if self._sent is None else ""
            chat.prompt.on_edit = dialog.settle
        try:
            answer: Welcome | None = await app.ask_on_screen(dialog)
        finally:
            chat.prompt.on_edit = None
        return answer

    async def _after(self, connecting: WelcomeActions, welcome: Welcome) -> None:
        chat, engine = self._app.chat, self._app.chat.session.engine
        if welcome.outcome == "demo":
            self._app.leave(DEMO_WANTED)
            return
        if welcome.outcome == "later" or engine is None:
            if self.is_unreachable:
                chat.hint("No model is connected: /login connects one")
            return
        try:
            await connecting.connect(welcome, engine, self.connection)
        except AgentError as error:
            chat.actions.say(str(error), "error")
            return
        chat.actions.say(welcome.report)
        chat.session.refresh_facts()
        self._app.run_worker(engine.warm(), exit_on_error=False, group="warm")
        sent = self._sent
        if sent is not None and not self.is_unreachable and chat.prompt.draft == sent:
            chat.prompt.clear()
            chat.send(sent)
