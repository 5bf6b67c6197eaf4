"""The user context before the messages, and the attachments at their end."""

from __future__ import annotations

from collections.abc import Callable

from agentcli.agent.attachments.changed_files import ChangedFiles
from agentcli.agent.attachments.instructions import ConversationInstructions, MemorySearch
from agentcli.agent.attachments.skills import SkillListing
from agentcli.agent.attachments.state_notes import (
    BackgroundReports,
    Composite,
    PlanModeNotice,
    ResumedFolders,
    TaskListReminder,
)
from agentcli.agent.live_permissions import LivePermissions
from agentcli.agent.ports import Attachments
from agentcli.assemble.environment import Environment
from agentcli.assemble.sessions import OpenedSession
from agentcli.context.prompt import folder_lines
from agentcli.definitions.library import Library
from agentcli.memory.instructions import InstructionFiles, InstructionFolders, UserContext
from agentcli.memory.notes import Notes
from agentcli.tools.base import ToolContext
from agentcli.tools.registry import Registry
from agentcli.tools.shell.background import Shells
from agentcli.tools.skill import NAME as SKILL


def skill_listing(
    env: Environment, session: OpenedSession, library: Library, permissions: LivePermissions, registry: Registry
) -> SkillListing | None:
    """The attachment that lists skills for the model; None if it can use none."""
    tools, has_tool = env.options.tools, registry.get(SKILL) is not None
    unwanted = permissions.policy.refuses_always(SKILL) or (tools is not None and SKILL not in tools)
    if not has_tool and (unwanted or registry.get("Read") is None or env.settings.get("systemPrompt") == ""):
        return None
    return SkillListing(library, permissions, env.options.ids, session.view.shown_messages, has_tool)


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
        self._instructing = self._instructed()
        elsewhere = self._instructing.tells if self._instructing is not None else lambda _path: False
        wanted = env.settings.boolean("changedFiles")
        self.changed = ChangedFiles(env.options.ids, elsewhere, session.store.note_seen) if wanted else None

    def recall(self, context: ToolContext) -> None:
        """Restore the file contents that the model has seen in the resumed session."""
        if self.changed is not None and self._session.seen:
            self.changed.recall(self._session.log, self._session.seen, context)

    def attachments(
        self,
        permissions: LivePermissions,
        shells: Shells,
        system: tuple[str, ...],
        skills: Attachments | None,
        others: Attachments,
    ) -> Composite:
        """All attachments, in the order of SPEC 2.6."""
        env, ids, view = self._env, self._env.options.ids, self._session.view
        folders = folder_lines(env.cwd, env.working_dirs, env.memory_dir)
        recorded = folders if self._session.system_context is None else self._session.folders
        parts: tuple[Attachments | None, ...] = (
            ResumedFolders(recorded if system else (), folders, ids, view.shown_messages),
            BackgroundReports(shells, ids),
            self.changed,
            self._instructing,
            None if self.notes is None else MemorySearch(self.notes, ids, view.messages),
            skills,
            PlanModeNotice(lambda: permissions.mode, ids, view.shown_messages, env.can_ask),
            TaskListReminder(ids, view.messages),
            others,
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
            else SkillListing(skills, permissions, ids, view.shown_messages, has_tool=True, refreshes=False),
            PlanModeNotice(lambda: permissions.mode, ids, view.shown_messages, can_ask=False),
            TaskListReminder(ids, view.messages),
        )
        return Composite(*(part for part in parts if part is not None))

    def _instruction_files(self, hides: Callable[[str], bool] | None) -> InstructionFiles | None:
        """The instruction files and the memory index; None if both are off."""
        env = self._env
        wanted = env.settings.boolean("instructionFiles") and env.settings.get("systemPrompt") != ""
        if not wanted and self.notes is None:
            return None
        places = InstructionFolders.around(env.cwd, env.working_dirs, env.paths.config_dir, env.home)
        index = None if self.notes is None else self.notes.index
        return InstructionFiles(places, hides=hides, memory_index=index, only_memory=not wanted)

    def _instructed(self) -> ConversationInstructions | None:
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
