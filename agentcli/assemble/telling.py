"""What the model is told beside prompts and results: the text before its messages, and what is attached at the end."""

from __future__ import annotations

from collections.abc import Callable

from agentcli.agent.live_permissions import LivePermissions
from agentcli.agent.ports import Attachments
from agentcli.agent.updates.attachments import (
    BackgroundReports,
    Composite,
    PlanModeNotice,
    TaskListReminder,
    Whereabouts,
)
from agentcli.agent.updates.changed_files import ChangedFiles
from agentcli.agent.updates.instructions import Instructing
from agentcli.agent.updates.memory_notes import Remembering
from agentcli.assemble.ground import Ground
from agentcli.assemble.sessions import OpenedSession
from agentcli.context.prompt import folder_lines
from agentcli.memory.instructions import InstructionFiles, InstructionFolders, UserContext
from agentcli.memory.notes import Notes
from agentcli.tools.base import ToolContext
from agentcli.tools.shell.background import Shells


class Telling:
    """Puts the user context to the front of the session's view, and has what comes after it."""

    def __init__(self, ground: Ground, session: OpenedSession, hides: Callable[[str], bool] | None) -> None:
        self._ground = ground
        self._session = session
        self.news: list[str] = []
        """What a person should know of instruction files that were skipped or cut; the engine takes it from here."""
        folder = ground.memory_dir
        self.notes = Notes(folder, hides) if folder is not None else None
        self.files = self._instruction_files(hides)
        self._instructing = self._instructed()
        elsewhere = self._instructing.tells if self._instructing is not None else None
        wanted = ground.settings.boolean("changedFiles")
        self.changed = ChangedFiles(ground.options.ids, elsewhere, session.store.note_seen) if wanted else None

    def recall(self, context: ToolContext) -> None:
        """What the model has seen of files in the part of the session that is gone on with."""
        if self.changed is not None and self._session.seen:
            self.changed.recall(self._session.log, self._session.seen, context)

    def attachments(
        self, permissions: LivePermissions, shells: Shells, system: tuple[str, ...], others: Attachments
    ) -> Composite:
        """In the order of SPEC 2.6."""
        ground, ids, shown = self._ground, self._ground.options.ids, self._session.view.messages
        folders = folder_lines(ground.cwd, ground.working_dirs, ground.memory_dir)
        told = folders if self._session.system_context is None else self._session.folders
        parts: tuple[Attachments | None, ...] = (
            Whereabouts(told if system else (), folders, ids, shown),
            BackgroundReports(shells, ids),
            self.changed,
            self._instructing,
            None if self.notes is None else Remembering(self.notes, ids, shown),
            PlanModeNotice(lambda: permissions.mode, ids, shown, ground.can_ask),
            TaskListReminder(ids, shown),
            others,
        )
        return Composite(*(part for part in parts if part is not None))

    def _instruction_files(self, hides: Callable[[str], bool] | None) -> InstructionFiles | None:
        """None: nothing stands before the messages, and nothing is attached of such files."""
        ground = self._ground
        wanted = ground.settings.boolean("instructionFiles") and ground.settings.get("systemPrompt") != ""
        if not wanted and self.notes is None:
            return None
        places = InstructionFolders.around(ground.cwd, ground.working_dirs, ground.paths.config_dir, ground.home)
        index = None if self.notes is None else self.notes.index
        return InstructionFiles(places, hides=hides, memory_index=index, only_memory=not wanted)

    def _instructed(self) -> Instructing | None:
        ground, session, files = self._ground, self._session, self.files
        fronts = {boundary: UserContext(*context) for boundary, context in session.user_contexts.items()}
        if files is not None and not fronts and not session.log:
            fronts[""] = told = files.always().as_context()
            session.store.set_user_context(told.text, told.sources)
            for notice in told.notices:
                ground.warn(notice, "instructions")
        fronts.setdefault("", UserContext())  # begun without: what there is comes at the end, the prefix stays
        for boundary, context in fronts.items():
            session.view.set_user_context(context.text, boundary)
        if files is None:
            return None
        return Instructing(files, fronts, ground.options.ids, session.view, self._renew, self.news.append)

    def _renew(self, context: UserContext, boundary: str) -> None:
        self._session.view.set_user_context(context.text, boundary)
        self._session.store.set_user_context(context.text, context.sources, boundary)
