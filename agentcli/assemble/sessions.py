"""Open a new or an earlier session: its file, history, file snapshots, system prompt, user context and attachments."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli import __version__
from agentcli.agent.attachments.instructions import ConversationInstructions, MemorySearch
from agentcli.agent.attachments.skills import SkillListing
from agentcli.agent.attachments.state_notes import (
    BackgroundReports,
    Composite,
    PlanModeNotice,
    ResumedFolders,
    TaskListReminder,
)
from agentcli.agent.costs.cache_watch import Front, front_from
from agentcli.agent.file_changes import ChangedFiles
from agentcli.agent.live_permissions import LivePermissions
from agentcli.agent.ports import Attachments
from agentcli.agent.session import LateSystem
from agentcli.assemble.environment import Environment
from agentcli.context.edits import edit_from_dict
from agentcli.context.prompt import (
    NON_INTERACTIVE,
    OutputStyle,
    folder_lines,
    git_branch,
    style_from,
    system_context,
    system_parts,
)
from agentcli.context.view import ContextView
from agentcli.core.errors import AgentError, UsageError
from agentcli.core.events import Event, SessionResumed
from agentcli.core.frozen import frozen
from agentcli.core.git.repository import repository_root
from agentcli.core.messages import Json, Message
from agentcli.core.processes.own_programs import clean_search_path
from agentcli.definitions.library import Library, all_styles
from agentcli.memory.instructions import InstructionFiles, InstructionFolders, UserContext
from agentcli.memory.notes import MECHANICS, Notes
from agentcli.session.base import SessionContext, Store, is_open
from agentcli.tools.base import ToolContext
from agentcli.tools.registry import Registry, builtin_traits
from agentcli.tools.shell.background import Shells
from agentcli.tools.skill import NAME as SKILL
from agentcli.workspace.base import SnapshotLocation, Workspace
from agentcli.workspace.git_status import GitStatus, read_git_status

if TYPE_CHECKING:
    from agentcli.session.load import LoadedSession
    from agentcli.session.recent_messages import EarlierPart


@frozen
class OpenedSession:
    store: Store
    log: Sequence[Message] = ()
    history: list[Event] = field(default_factory=list)
    """Events of the conversation so far, in order."""
    view: ContextView = field(default_factory=ContextView)
    system_context: str | None = None
    user_contexts: Mapping[str, tuple[str, dict[str, str]]] = field(default_factory=dict)
    """User contexts, as text and sources, by the compaction boundary from which they apply."""
    forked_from: str = ""
    results_elsewhere: tuple[Path, ...] = ()
    """Folders with stored tool results of the sessions from which this one was forked."""
    pinned: tuple[str, ...] = ()
    seen: Sequence[tuple[str, Json]] = ()
    """File contents that the model has seen, in the form of `ChangedFiles.recall`."""
    last_reply_at: str = ""
    """Timestamp of the last reply; "" if unknown."""
    spent: Sequence[Json] = ()
    """Token usage per model of each process that worked on the session."""
    directory: str = ""
    """Last directory of Bash; "" for the project's root."""
    began_in: str = ""
    """Folder in which a resumed session was started; "" if unknown."""
    folders: Sequence[str] = ()
    """The lines about folders in the recorded system context."""
    style: Json | None = None
    """The recorded output style."""
    background: Mapping[str, Json] = field(default_factory=dict)
    """Background commands of earlier processes, as `session.load` returns them."""
    front: Front | None = None
    """Fingerprint of the last request's prefix; None if unknown."""
    choice: Front | None = None
    """Model and parameters that the user chose after the last request; None: none."""
    server_tools: Sequence[Json] = ()
    """Tools of MCP servers that are part of every request, as recorded."""
    earlier: EarlierPart | None = None
    """The beginning of a long session, of which the log has only some messages; None if it has all."""

    @property
    def shown_rights(self) -> Sequence[Event]:
        """All events that may contain changes of permission modes and rules."""
        return (*self.earlier.rights, *self.history) if self.earlier is not None else self.history

    @property
    def last_model(self) -> str:
        if self.choice is not None:
            return self.choice.model
        return next((message.model for message in reversed(self.log) if message.model), "")


_AS_LOADED = (
    *("history", "system_context", "user_contexts", "pinned", "seen", "last_reply_at", "spent", "directory"),
    *("folders", "style", "background", "server_tools", "earlier"),
)
"""Values that are taken from the session file as they are."""


def _is_recent(boundary: Message | None, loaded: LoadedSession) -> bool:
    """Whether everything that requests need was read. If not, the last compaction was undone or never completed."""
    first = loaded.earlier.stand_ins if loaded.earlier is not None else 0
    return any(message is boundary for message in loaded.messages[first:])


def view_of(loaded: LoadedSession) -> ContextView:
    """What requests show of a session, without its user contexts."""
    view = ContextView()
    for redaction in loaded.redactions:
        view.repair(redaction.repair, redaction.through)
    for after, edit in loaded.edits:
        with suppress(KeyError, ValueError, TypeError):
            # An edit of a newer version is skipped, so the content that it hid is sent.
            view.edit([edit_from_dict(edit)], after)
    return view


class SessionBuilder:
    def __init__(self, env: Environment) -> None:
        self._env = env
        options = env.options
        is_new = options.resume is None and not options.continue_latest and env.settings.get("systemPrompt") != ""
        self._git = GitStatusReader(env) if is_new and git_branch(env.cwd) else None

    def open(self) -> OpenedSession:
        options, state_dir = self._env.options, self._env.paths.state_dir
        new_id = options.session_id or options.ids.new()
        wants_old = options.resume is not None or options.continue_latest
        if not options.persist or state_dir is None:
            if wants_old and state_dir is None:
                raise UsageError("Cannot find saved sessions: no home folder. Set HOME or AGENTCLI_STATE_DIR.")
            if not wants_old:
                problem = None if not options.persist else "This session is not saved: there is no home folder."
                return OpenedSession(Store(new_id, problem))
        assert state_dir is not None
        from agentcli.session.store import SessionStore

        workplace = SessionContext(state_dir, self._env.cwd, options.clock, options.ids, __version__)
        if not wants_old:
            store = SessionStore.create(workplace, new_id)
            if options.name:
                store.set_title(options.name)
            return OpenedSession(store)
        found = self._find_session(state_dir)
        try:
            return self._resume(workplace, found, new_id)
        except OSError as error:
            raise AgentError(f"Cannot read the session {found.stem}: {error.strerror}.") from error

    def _resume(self, workplace: SessionContext, path: Path, new_id: str) -> OpenedSession:
        from agentcli.session.find import results_along
        from agentcli.session.load import load_session
        from agentcli.session.recent_messages import load_recent
        from agentcli.session.store import SessionStore

        options = self._env.options
        # Non-interactive front ends do not show the earlier conversation.
        with_history = options.interactive
        store: Store
        if not options.persist:
            loaded = load_recent(path, with_history=with_history, state_calls=tuple(builtin_traits("keeps_state")))
            store = Store(loaded.session_id)
        elif options.fork_session:
            store, loaded = SessionStore.fork(workplace, path, new_id, with_history=with_history, rewind=options.rewind)
        else:
            store, loaded = SessionStore.resume(
                workplace,
                path,
                with_history=with_history,
                state_calls=tuple(builtin_traits("keeps_state")),
                rewind=options.rewind,
            )
        view = view_of(loaded)
        if loaded.earlier is not None and not _is_recent(view.edits.boundary(loaded.messages), loaded):
            loaded = load_session(path, with_history=with_history)
            view = view_of(loaded)
        if is_open(loaded.history):
            loaded.history.append(SessionResumed(cut_off=True))
        if options.name:
            store.set_title(options.name)
        forked_from = path.stem if options.persist and options.fork_session else ""
        # A session that is not saved uses the stored results of the one it continues.
        elsewhere = results_along(workplace.state_dir, loaded.forked_from if options.persist else path.stem)
        return OpenedSession(
            store,
            log=loaded.messages,
            view=view,
            forked_from=forked_from,
            results_elsewhere=elsewhere,
            began_in=loaded.cwd,
            front=front_from(loaded.front, loaded.front_version),
            choice=front_from(loaded.choice),
            **{name: getattr(loaded, name) for name in _AS_LOADED},
        )

    def _find_session(self, state_dir: Path) -> Path:
        from agentcli.session.find import find_one, latest

        if self._env.options.resume is None:
            newest = latest(state_dir, self._env.cwd)
            if newest is None:
                raise AgentError("There is no conversation to continue in this folder. Start one without --continue.")
            return newest.path
        return find_one(state_dir, self._env.cwd, self._env.options.resume).path

    def style(self, session: OpenedSession, library: Library) -> OutputStyle | None:
        """The output style of the settings; a resumed session keeps the one it began with."""
        if session.system_context is not None:
            return style_from(session.style)
        return chosen_style(self._env, library)

    def system(self, session: OpenedSession, style: OutputStyle | None) -> tuple[str, ...]:
        """The system prompt. A resumed session keeps its recorded system context, so that the request prefix does not
        change. A new one gets it without the git status (see `late_system`)."""
        context = session.system_context
        return self._system_with(self.context() if context is None else context, style)

    def late_system(self, session: OpenedSession, style: OutputStyle | None) -> LateSystem | None:
        """Adds the git status to the system prompt of a new session; None for a resumed one."""
        if session.system_context is not None:
            return None

        def gather() -> Callable[[], tuple[str, ...]]:
            context = self.context(self._git.lines() if self._git is not None else ())

            def complete() -> tuple[str, ...]:
                env = self._env
                folders = folder_lines(env.cwd, env.working_dirs, env.memory_dir)
                session.store.set_system_context(context, folders, style.record() if style is not None else None)
                return self._system_with(context, style)

            return complete

        return gather

    def context(self, git_lines: Sequence[str] = (), *, memory: bool = True) -> str:
        """The system context: folders, platform, date and git status. `memory`: also the folder of the notes."""
        uname = os.uname()
        platform = f"{uname.sysname} {uname.release} {uname.machine}"
        date = self._env.options.clock.timestamp()[:10]
        env = self._env
        notes = env.memory_dir if memory else None
        return system_context(env.cwd, env.working_dirs, platform, date, git_lines, notes)

    def _system_with(self, context: str, style: OutputStyle | None) -> tuple[str, ...]:
        notes = [] if self._env.options.interactive else [NON_INTERACTIVE]
        if self._env.memory_dir is not None:
            notes.append(MECHANICS)
        settings = self._env.settings
        return system_parts(settings.get("systemPrompt"), settings.get("appendSystemPrompt"), context, notes, style)

    def workspace(self, session: OpenedSession) -> Workspace:
        """Stores file snapshots for undo in the state folder."""
        if not self._env.settings.boolean("undo"):
            return Workspace("Undo is not available: the `undo` setting is off.")
        if not self._env.options.persist or self._env.paths.state_dir is None:
            return Workspace("Undo is not available: this session is not saved.")
        state_dir = Path(os.path.realpath(self._env.paths.state_dir))

        search_path = clean_search_path(self._env.environ.get("PATH"), self._env.writable_dirs)
        place = SnapshotLocation(state_dir, session.store.session_id, search_path, forked_from=session.forked_from)
        return Workspace(place=place, may_warm=self._env.is_trusted)


DEADLINE_SECONDS = 0.2
"""Seconds that the first prompt waits for git, counted from the start of the thread."""
GIT_SECONDS = 5.0
"""Timeout of git itself, which is longer because the first prompt often comes much later than the start."""


class GitStatusReader:
    """Reads the git status in a thread that starts with the object."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._deadline = time.monotonic() + DEADLINE_SECONDS
        self._found: GitStatus | None = None
        self._thread = threading.Thread(target=self._gather, name="git status", daemon=True)
        self._thread.start()

    def lines(self) -> list[str]:
        """The status lines, after waiting at most until the deadline; empty if git has not finished."""
        self._thread.join(max(0.0, self._deadline - time.monotonic()))
        return self._found.lines() if not self._thread.is_alive() and self._found is not None else []

    def _gather(self) -> None:
        env = self._env
        if not env.is_trusted() or repository_root(env.cwd) is None:
            return
        from agentcli.core.git.run import git_program
        from agentcli.shell.git_config import runs_programs

        folders = tuple(str(folder) for folder in env.writable_dirs)
        program = git_program(folders)
        if program is None or runs_programs(env.cwd, folders) is not None:
            return
        self._found = read_git_status(program, env.cwd, GIT_SECONDS)


def chosen_style(env: Environment, library: Library) -> OutputStyle | None:
    """The style that the settings name; None for the default one. An unknown name is reported."""
    name = (env.settings.text("outputStyle") or "").strip().lower()
    if name in ("", "default"):
        return None
    if not library.loaded:
        library.refresh()
    styles = all_styles(library)
    style = styles.get(name)
    if style is None:
        known = ", ".join(styles)
        env.warn(f"There is no output style {name!r}, so the default one is used. There are: {known}.", "settings")
        return None
    return OutputStyle(style.name, style.body, style.keep_coding_instructions)


def skill_listing(
    env: Environment, session: OpenedSession, library: Library, permissions: LivePermissions, registry: Registry
) -> SkillListing | None:
    """The attachment that lists skills for the model; None if it can use none."""
    tools, has_tool = env.options.tools, registry.get(SKILL) is not None
    unwanted = permissions.policy.refuses_always(SKILL) or (tools is not None and SKILL not in tools)
    if not has_tool and (unwanted or registry.get("Read") is None or env.settings.get("systemPrompt") == ""):
        return None
    return SkillListing(library, permissions, env.options.ids, session.view.list_shown_messages, has_tool)


class AttachmentsBuilder:
    """Sets the user context of the session's view and builds the attachments."""

    def __init__(
        self, env: Environment, session: OpenedSession, hides: Callable[[str], bool] | None, *, memory: bool = True
    ) -> None:
        self._env = env
        self._session = session
        self.news: list[str] = []
        """Notices about skipped or truncated instruction files; the engine takes them from here."""
        folder = env.memory_dir if memory else None
        self.notes = Notes(folder, hides) if folder is not None else None
        self.files = self._instruction_files(hides)
        self._instructing = self._make_instructions()
        elsewhere = self._instructing.tells if self._instructing is not None else lambda _path: False
        wanted = env.settings.boolean("changedFiles")
        self.changed = ChangedFiles(env.options.ids, elsewhere, session.store.note_seen) if wanted else None

    def recall(self, context: ToolContext) -> None:
        """Restore the file contents that the model has seen in the resumed session."""
        if self.changed is not None and self._session.seen:
            self.changed.recall(self._session.log, self._session.seen, context)

    def attachments(
        self, permissions: LivePermissions, shells: Shells, system: tuple[str, ...], skills: SkillListing | None
    ) -> Composite:
        """All attachments, in the order of SPEC 2.6."""
        env, ids, view = self._env, self._env.options.ids, self._session.view
        folders = folder_lines(env.cwd, env.working_dirs, env.memory_dir)
        recorded = folders if self._session.system_context is None else self._session.folders
        parts: tuple[Attachments | None, ...] = (
            ResumedFolders(recorded if system else (), folders, ids, view.list_shown_messages),
            BackgroundReports(shells, ids),
            self.changed,
            self._instructing,
            None if self.notes is None else MemorySearch(self.notes, ids, view.messages),
            skills,
            PlanModeNotice(lambda: permissions.mode, ids, view.list_shown_messages, env.options.interactive),
            TaskListReminder(ids, view.messages),
        )
        return Composite(*(part for part in parts if part is not None))

    def agent_attachments(self, permissions: LivePermissions, skills: Library | None) -> Composite:
        """The attachments of a sub-agent, which cannot ask the user, and whose background commands report to the
        session. `skills`: None if it cannot load any."""
        ids, view = self._env.options.ids, self._session.view
        parts: tuple[Attachments | None, ...] = (
            self.changed,
            self._instructing,
            None
            if skills is None
            else SkillListing(skills, permissions, ids, view.list_shown_messages, has_tool=True, refreshes=False),
            PlanModeNotice(lambda: permissions.mode, ids, view.list_shown_messages, can_ask=False),
            TaskListReminder(ids, view.messages),
        )
        return Composite(*(part for part in parts if part is not None))

    def _instruction_files(self, hides: Callable[[str], bool] | None) -> InstructionFiles | None:
        """The instruction files and the memory index; None if both are off."""
        env = self._env
        wanted = env.settings.boolean("instructionFiles") and env.settings.get("systemPrompt") != ""
        if not wanted and self.notes is None:
            return None
        places = InstructionFolders.find_around(env.cwd, env.working_dirs, env.paths.config_dir, env.home)
        index = None if self.notes is None else self.notes.index
        return InstructionFiles(places, hides=hides, memory_index=index, only_memory=not wanted)

    def _make_instructions(self) -> ConversationInstructions | None:
        env, session, files = self._env, self._session, self.files
        fronts = {boundary: UserContext(*context) for boundary, context in session.user_contexts.items()}
        if files is not None and not fronts and not session.log:
            fronts[""] = initial = files.always().as_context()
            session.store.set_user_context(initial.text, initial.sources)
            for notice in initial.notices:
                env.warn(notice, "instructions")
        # A session that began without user context gets it attached at the end: its prefix must not change.
        fronts.setdefault("", UserContext())
        for boundary, context in fronts.items():
            session.view.set_user_context(context.text, boundary)
        if files is None:
            return None
        return ConversationInstructions(files, fronts, env.options.ids, session.view, self._renew, self.news.append)

    def _renew(self, context: UserContext, boundary: str) -> None:
        self._session.view.set_user_context(context.text, boundary)
        self._session.store.set_user_context(context.text, context.sources, boundary)
