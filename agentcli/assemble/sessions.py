"""The conversation that is begun or gone on with: its file, its past, its copies of files, its system prompt."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path

from agentcli import __version__
from agentcli.agent.cache.fingerprint import Front, front_from
from agentcli.agent.engine_setup import LateSystem
from agentcli.assemble.git_context import GitGathering
from agentcli.assemble.ground import Ground
from agentcli.context.edits import edit_from_dict
from agentcli.context.prompt import NON_INTERACTIVE, git_branch, system_context, system_parts
from agentcli.context.view import ContextView
from agentcli.core.errors import AgentError, UsageError
from agentcli.core.events import Event
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json, Message
from agentcli.core.programs import clean_search_path
from agentcli.memory.notes import mechanics
from agentcli.session.base import SessionContext, Store
from agentcli.workspace.base import Workspace
from agentcli.workspace.lazy_history import LazyHistory


@frozen
class OpenedSession:
    store: Store
    log: Sequence[Message] = ()
    history: list[Event] = field(default_factory=list)
    """What it has shown, in order."""
    view: ContextView = field(default_factory=ContextView)
    system_context: str | None = None
    user_contexts: Mapping[str, tuple[str, dict[str, str]]] = field(default_factory=dict)
    """By the boundary from which on each stands before all messages."""
    forked_from: str = ""
    results_elsewhere: tuple[Path, ...] = ()
    """Folders of other sessions with tool output that this conversation names: those that it was forked from."""
    pinned: tuple[str, ...] = ()
    seen: Sequence[tuple[str, Json]] = ()
    """What the model has seen of files, as `ChangedFiles.recall` takes it."""
    last_reply_at: str = ""
    """When the last reply came, as a timestamp; "" if that is not known."""
    spent: Sequence[Json] = ()
    """What each process that worked on it has used, per model."""
    directory: str = ""
    """Where Bash ran last; "" for the project's root."""
    background: Mapping[str, Json] = field(default_factory=dict)
    """Background commands of earlier processes, as `session.load` has them."""
    front: Front | None = None
    """How its last request began; None where that is not known."""

    @property
    def last_model(self) -> str:
        return next((message.model for message in reversed(self.log) if message.model), "")


class SessionParts:
    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        options = ground.options
        is_new = options.resume is None and not options.continue_latest and ground.settings.get("systemPrompt") != ""
        self._git = GitGathering(ground) if is_new and git_branch(ground.cwd) else None

    def opened(self) -> OpenedSession:
        options, state_dir = self._ground.options, self._ground.paths.state_dir
        new_id = options.session_id or options.ids.new()
        wants_old = options.resume is not None or options.continue_latest
        if not options.persist or state_dir is None:
            if wants_old and state_dir is None:
                raise UsageError("There is no folder with sessions. Set HOME or AGENTCLI_STATE_DIR.")
            if not wants_old:
                problem = None if not options.persist else "This session is not saved: there is no home folder."
                return OpenedSession(Store(new_id, problem))
        assert state_dir is not None
        from agentcli.session.store import SessionStore

        workplace = SessionContext(state_dir, self._ground.cwd, options.clock, options.ids, __version__)
        if not wants_old:
            store = SessionStore.create(workplace, new_id)
            if options.name:
                store.set_title(options.name)
            return OpenedSession(store)
        found = self._found_session(state_dir)
        try:
            return self._resumed(workplace, found, new_id)
        except OSError as error:
            raise AgentError(f"The session {found.stem} cannot be read: {error.strerror}.") from error

    def _resumed(self, workplace: SessionContext, path: Path, new_id: str) -> OpenedSession:
        from agentcli.session.find import results_along
        from agentcli.session.load import load_session
        from agentcli.session.store import SessionStore

        options = self._ground.options
        # Non-interactive front ends do not show the session again.
        with_history = options.interactive
        store: Store
        if not options.persist:
            loaded = load_session(path, with_history=with_history)
            store = Store(loaded.session_id)
        elif options.fork_session:
            store, loaded = SessionStore.fork(workplace, path, new_id, with_history=with_history)
        else:
            store, loaded = SessionStore.resume(workplace, path, with_history=with_history)
        if options.name:
            store.set_title(options.name)
        view = ContextView()
        for redaction in loaded.redactions:
            view.repair(redaction.repair, redaction.through)
        for after, edit in loaded.edits:
            with suppress(KeyError, ValueError, TypeError):
                # Of a newer version; what it hid is shown.
                view.edit([edit_from_dict(edit)], after)
        forked_from = path.stem if options.persist and options.fork_session else ""
        # Without a file of its own the conversation goes on from the other's.
        elsewhere = results_along(workplace.state_dir, loaded.forked_from if options.persist else path.stem)
        contexts = loaded.system_context, loaded.user_contexts
        told = loaded.messages, loaded.history
        opened = OpenedSession(store, *told, view, *contexts, forked_from, elsewhere, loaded.pinned)
        front = front_from(loaded.front, loaded.front_version)
        opened = replace(opened, directory=loaded.directory, background=loaded.background)
        return replace(opened, last_reply_at=loaded.last_reply_at, seen=loaded.seen, spent=loaded.spent, front=front)

    def _found_session(self, state_dir: Path) -> Path:
        from agentcli.session.find import find, latest

        if self._ground.options.resume is None:
            newest = latest(state_dir, self._ground.cwd)
            if newest is None:
                raise AgentError("There is no conversation to continue in this folder. Start one without --continue.")
            return newest.path
        matches = find(state_dir, self._ground.cwd, self._ground.options.resume)
        if not matches:
            raise AgentError(
                f"No conversation found with session ID: {self._ground.options.resume}. See `agentcli sessions list`."
            )
        if len(matches) > 1:
            some = ", ".join(match.session_id for match in matches[:5])
            raise UsageError(f"{self._ground.options.resume!r} fits several sessions: {some}. Give one id.")
        return matches[0].path

    def system(self, session: OpenedSession) -> tuple[str, ...]:
        """A resumed session gets the system context it was recorded with: its prefix must not change. A new one gets
        it without what git reports (`late_system`)."""
        context = session.system_context
        return self._system_with(self._context() if context is None else context)

    def late_system(self, session: OpenedSession) -> LateSystem | None:
        """What completes the system prompt of a new session; None for one that was resumed."""
        if session.system_context is not None:
            return None

        def gather() -> Callable[[], tuple[str, ...]]:
            context = self._context(self._git.lines() if self._git is not None else ())

            def complete() -> tuple[str, ...]:
                session.store.set_system_context(context)
                return self._system_with(context)

            return complete

        return gather

    def _context(self, git_lines: Sequence[str] = ()) -> str:
        uname = os.uname()
        platform = f"{uname.sysname} {uname.release} {uname.machine}"
        date = self._ground.options.clock.timestamp()[:10]
        ground = self._ground
        return system_context(ground.cwd, ground.working_dirs, platform, date, git_lines, ground.memory_dir)

    def _system_with(self, context: str) -> tuple[str, ...]:
        notes = [] if self._ground.can_ask else [NON_INTERACTIVE]
        if self._ground.memory_dir is not None:
            notes.append(mechanics())
        settings = self._ground.settings
        return system_parts(settings.get("systemPrompt"), settings.get("appendSystemPrompt"), context, notes)

    def workspace(self, session: OpenedSession) -> Workspace:
        """What keeps copies of files for an undo: in the state folder, like everything else of a session."""
        if not self._ground.settings.boolean("undo"):
            return Workspace("Nothing can be undone: copies of files are switched off in the settings (undo).")
        if not self._ground.options.persist or self._ground.paths.state_dir is None:
            return Workspace("Nothing can be undone: nothing of this session is kept, copies of files neither.")
        state_dir = Path(os.path.realpath(self._ground.paths.state_dir))

        whose = (session.store.session_id, session.forked_from)
        search_path = clean_search_path(self._ground.environ.get("PATH"), self._ground.writable_dirs)
        return LazyHistory(state_dir, whose, search_path, self._ground.is_trusted)
