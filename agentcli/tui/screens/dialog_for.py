"""Choose the dialog for a question of the engine."""

from __future__ import annotations

from pathlib import Path

from agentcli.core.events import CompactionProposed, PermissionRequested
from agentcli.core.permission import Answer
from agentcli.interactive.questions.kinds import FormQuestion, PagedQuestion, TextQuestion, question_for
from agentcli.interactive.questions.model import Question
from agentcli.interactive.questions.permission import PermissionQuestion
from agentcli.tui.screens.dialog import Dialog
from agentcli.tui.screens.edited_text import TextDialog
from agentcli.tui.screens.permission import PermissionDialog
from agentcli.tui.screens.question import QuestionDialog, QuestionsDialog
from agentcli.tui.screens.server_form import ServerFormDialog


def dialog_for(
    event: PermissionRequested | CompactionProposed, waiting: int = 0, cwd: Path | None = None
) -> Dialog[Answer | None]:
    """`waiting`: number of further questions after this one. `cwd`: base of relative paths in the call."""
    return dialog_of(question_for(event), waiting, cwd)


def dialog_of(question: Question, waiting: int = 0, cwd: Path | None = None) -> Dialog[Answer | None]:
    match question:
        case PermissionQuestion():
            return PermissionDialog(question, waiting, cwd)
        case TextQuestion():
            return TextDialog(question)
        case PagedQuestion():
            return QuestionsDialog(question)
        case FormQuestion():
            return ServerFormDialog(question)
        case _:
            return QuestionDialog(question)
