"""Updates for the model besides prompts and results: each at most once per change.

What the model already knows is read from the messages that requests show, so it survives a resume, is repeated after a
compaction removed it, and counts again if that is undone. Background commands are an exception: each ends only once.
Every text has a size limit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from textwrap import indent
from typing import Any

from agentcli.agent.attachments.undo_notes import UserActionNote
from agentcli.agent.conversation_log import ConversationLog
from agentcli.agent.loop_state import LoopState
from agentcli.agent.ports import Attachments
from agentcli.core.aio import in_thread
from agentcli.core.ids import Ids
from agentcli.core.messages import NOTE, RESULT_DATA, Json, Message, Origin, user_message
from agentcli.core.permission import PermissionMode
from agentcli.core.space_saving import RunningValue, latest
from agentcli.core.text.format import counted
from agentcli.core.text.patterns import lazy_pattern
from agentcli.core.text.plaintext import plain_line
from agentcli.tools.planning import NAME as TASK_LIST_TOOL
from agentcli.tools.planning import last_list, todos_from, written_lists
from agentcli.tools.shell.background import ENDED_WITH_SESSION, EarlierShell, Shell, Shells

_MODE = "permission_mode"
"""Meta key: the permission mode that this attachment reports."""

_FOLDERS = "folders"
"""Meta key: the folder lines that this attachment reports."""

TASK_LIST = "task_list"
"""Meta key of a message that shows the task list."""
MAX_TASKS = 50
MAX_INLINE = 2_000
"""Characters of an ended background command's output up to which its report contains it."""
_STALE_AFTER = 15

PLAN_MODE_ON = (
    "[Plan mode is on. Tools and commands that only read work; every call that would change something is refused, "
    "whatever else allows it. When the plan is complete, present it with ExitPlanMode; work begins after the user has "
    "approved it.]"
)
PLAN_MODE_UNATTENDED = (
    "[Plan mode is on. Tools and commands that only read work; every call that would change something is refused, "
    "whatever else allows it. This session is non-interactive, so the plan cannot be approved: give the complete "
    "plan as your answer.]"
)
PLAN_MODE_OFF = "[Plan mode is off. Changes are possible again, within the usual permissions.]"


Shown = Callable[[Sequence[Message]], Sequence[Message]]
"""Returns the messages of a log that requests show (`ContextView.messages`)."""


class Composite(Attachments):
    """Several attachments as one, in the order given."""

    def __init__(self, *parts: Attachments) -> None:
        self._parts: tuple[Attachments, ...] = ()
        for part in parts:
            self._parts += part._parts if isinstance(part, Composite) else (part,)

    @property
    def waits(self) -> bool:
        return any(part.waits for part in self._parts)

    async def collect(self, state: LoopState) -> Sequence[Message]:
        # One thread for all of them.
        lookups = [look for part in self._parts if (look := part.lookup(state)) is not None]
        if lookups:
            await in_thread(lambda: [look() for look in lookups])
        return [message for part in self._parts for message in await part.collect(state)]

    def close(self) -> None:
        for part in self._parts:
            part.close()


class UserNotes(Attachments):
    """Notes for the model about the user's own actions, such as a command in their shell or an undo.

    A note is handed out once as a message; one that an abort kept out of the log is handed out again."""

    def __init__(self, log: ConversationLog, ids: Ids) -> None:
        self._log = log
        self._ids = ids
        self._new: list[UserActionNote] = []
        self._handed_out: list[Message] = []

    def add(self, note: UserActionNote) -> None:
        self._new.append(note)

    def take(self) -> list[Message]:
        again = [message for message in self._handed_out if not self._log.has(message.id)]
        new = [note.message(self._ids.new()) for note in self._new]
        self._new.clear()
        self._handed_out = [*again, *new]
        return self._handed_out

    async def collect(self, state: LoopState) -> Sequence[Message]:
        return self.take()


class ResumedFolders(Attachments):
    """Reports the working directories when a session is resumed with others. The system prompt keeps the original ones,
    for the cache."""

    def __init__(self, known: Sequence[str], now: Sequence[str], ids: Ids, shown: Shown) -> None:
        """`known`: the folder lines of the system context, empty if it has none; `now`: the current ones."""
        self._known = known
        self._now = list(now)
        self._ids = ids
        self._shown = shown
        self._last: RunningValue[Message, Any] = latest(lambda message: message.meta.get(_FOLDERS))

    async def collect(self, state: LoopState) -> Sequence[Message]:
        if not self._known:
            return ()
        last = self._last.of(self._shown(state.messages))
        if list(self._known if last is None else last) == self._now:
            return ()
        text = "[The working directories have changed since this session began.]\n" + "\n".join(self._now)
        return (user_message(text, self._ids.new(), Origin.ATTACHMENT, {_FOLDERS: self._now}),)


class PlanModeNotice(Attachments):
    """Reports the start and end of plan mode to the model. The mode is enforced elsewhere."""

    def __init__(self, mode: Callable[[], PermissionMode], ids: Ids, shown: Shown, can_ask: bool = True) -> None:
        self._mode = mode
        self._can_ask = can_ask
        self._ids = ids
        self._shown = shown
        self._last: RunningValue[Message, Any] = latest(lambda message: message.meta.get(_MODE))

    async def collect(self, state: LoopState) -> Sequence[Message]:
        planning = self._mode() is PermissionMode.PLAN
        if planning == (self._last.of(self._shown(state.messages)) == PermissionMode.PLAN.value):
            return ()
        text = PLAN_MODE_OFF
        if planning:
            text = PLAN_MODE_ON if self._can_ask else PLAN_MODE_UNATTENDED
        return (user_message(text, self._ids.new(), Origin.ATTACHMENT, {_MODE: self._mode().value}),)


class TaskListReminder(Attachments):
    """Shows the model its open tasks if it has not used the list for a while or no longer sees it."""

    def __init__(self, ids: Ids, shown: Shown) -> None:
        self._ids = ids
        self._shown = shown
        self._written = written_lists()

    async def collect(self, state: LoopState) -> Sequence[Message]:
        # Most conversations have no open tasks, so the shown messages are searched only if there are some.
        text = _tasks_text(last_list(self._written.of(state.messages)))
        if not text or not _is_list_stale(self._shown(state.messages)):
            return ()
        return (user_message(text, self._ids.new(), Origin.ATTACHMENT, {TASK_LIST: True}),)


class BackgroundReports(Attachments):
    """Reports ended background commands to the model, after a resume also those of an earlier process."""

    def __init__(self, shells: Shells, ids: Ids) -> None:
        self._shells = shells
        self._ids = ids
        self._last: tuple[str, list[Shell | EarlierShell]] = ("", [])
        """Id of the last report, and its commands."""

    async def collect(self, state: LoopState) -> Sequence[Message]:
        self._take_back_unsent(state)
        earlier = [shell for shell in self._shells.earlier if not shell.is_reported]
        ended = [shell for shell in self._shells.known() if shell.status != "running" and not shell.is_reported]
        lines = []
        for past in earlier:
            past.is_reported = True
            lines.append(f"{past.id} ({plain_line(past.command, 100)}): {past.ended}; its output is gone")
        for shell in ended:
            shell.is_reported = True
            lines.append(f"{shell.id} ({plain_line(shell.command.text, 100)}): {shell.ended}; {_output(shell)}")
        if not lines:
            return ()
        message_id = self._ids.new()
        self._last = (message_id, [*earlier, *ended])
        text = "[Background commands that have ended:\n" + "\n".join(lines) + "\n]"
        note = {"about": "background", "shells": [past.id for past in earlier] + [shell.id for shell in ended]}
        return (user_message(text, message_id, Origin.ATTACHMENT, {NOTE: note}),)

    def _take_back_unsent(self, state: LoopState) -> None:
        """Report again what an abort kept out of the log."""
        (message_id, shells), self._last = self._last, ("", [])
        if not shells or any(message.id == message_id for message in reversed(state.messages)):
            return
        for shell in shells:
            shell.is_reported = False


def _output(shell: Shell) -> str:
    """The output that the model has not read: in full if it is short, indented so that it cannot pass for our words."""
    output = shell.command.output
    if not output.unread:
        return "no further output"
    if output.unread > MAX_INLINE:
        return f"{counted(output.unread, 'character')} of output not read yet, see BashOutput"
    return f"its output:\n{indent(output.unread_text.strip(), '    ')}"


def tasks_text(log: Sequence[Message]) -> str:
    """The task list; "" if all tasks are done."""
    return _tasks_text(todos_from(log))


def _tasks_text(todos: Sequence[Json]) -> str:
    if all(todo["status"] == "completed" for todo in todos):
        return ""
    lines = [f"- {todo['status']}: {plain_line(todo['content'], 150)}" for todo in todos[:MAX_TASKS]]
    if len(todos) > MAX_TASKS:
        lines.append(f"- and {len(todos) - MAX_TASKS} more")
    return "[Your task list; TodoWrite changes it:\n" + "\n".join(lines) + "]"


def _is_list_stale(shown: Sequence[Message]) -> bool:
    """Whether the list was last written or shown many replies ago, or is no longer shown."""
    replies = 0
    for message in reversed(shown):
        if TASK_LIST in message.meta:
            return replies >= _STALE_AFTER
        if message.role == "assistant":
            if any(call.name == TASK_LIST_TOOL for call in message.tool_uses):
                return replies >= _STALE_AFTER
            replies += 1
    return True


_NUMBER = lazy_pattern(r"bash_(\d{1,9})")


def resume_shells(log: Sequence[Message], recorded: Mapping[str, Json]) -> Shells:
    """The background commands of a resumed session; `recorded`: those in its file, by id."""
    announced = _list_announced(log) if recorded else set()
    earlier = [
        EarlierShell(shell_id, str(task.get("command", "")), _describe_end(task), is_reported=shell_id in announced)
        for shell_id, task in recorded.items()
    ]
    numbers = (int(match[1]) for shell_id in recorded if (match := _NUMBER.fullmatch(shell_id)))
    return Shells(earlier, max(numbers, default=0))


def _describe_end(task: Json) -> str:
    """Outcome of a command; one without a recorded end was stopped when the program ended."""
    running = task.get("status", "running") == "running"
    return ENDED_WITH_SESSION if running else str(task.get("summary") or task["status"])


def _list_announced(log: Sequence[Message]) -> set[str]:
    """The ids of commands whose end was reported to the model."""
    announced: set[str] = set()
    for message in log:
        announced.update(map(str, message.meta.get(NOTE, {}).get("shells", ())))
        announced.update(str(data.get("ended", "")) for data in message.meta.get(RESULT_DATA, {}).values())
    return announced
