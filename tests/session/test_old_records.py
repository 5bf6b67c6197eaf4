"""What is derived from the texts of old session files, and nothing where a newer file has the field."""

from __future__ import annotations

from agentcli.core.events import ToolFinished
from agentcli.core.messages import (
    NOTE,
    RESULT_DATA,
    SUMMARY,
    Json,
    Message,
    Origin,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    user_message,
)
from agentcli.session import old_records
from agentcli.session.history import finished_call, result_fields
from tests.support.tables import each_row


@each_row(
    ("text", "note"),
    [
        ("[The user ran a command in their own shell: ls\nIts output:\n]", {"about": "shell"}),
        ("[The user undid the changes that you made to files.]", {"about": "undo"}),
        ("[The user took the undo back: …]", {"about": "undo"}),
        (
            "[Background commands that have ended:\nbash_1 (make): exit code 0\nbash_12 (x): killed]",
            {"about": "background", "shells": ["bash_1", "bash_12"]},
        ),
    ],
)
def test_notes(text: str, note: Json) -> None:
    assert old_records.completed_message(user_message(text, "m", Origin.ATTACHMENT)).meta == {NOTE: note}
    newer = user_message(text, "m", Origin.ATTACHMENT, {NOTE: {"about": "undo"}})
    assert old_records.completed_message(newer) is newer
    prompt = user_message(text, "m", Origin.PROMPT)
    assert old_records.completed_message(prompt) is prompt


def test_a_summary() -> None:
    text = (
        "This conversation was shortened. A hand-over of what came before:\n\nAll is well.\n\n"
        "The user's messages, word for word, the oldest first:\n<message>go</message>\n\n"
        "The last messages before it follow as they were.\n\nGo on from here without mentioning the hand-over."
    )
    message = old_records.completed_message(user_message(text, "m", Origin.SUMMARY))
    assert message.meta == {SUMMARY: "All is well."}
    assert message.text == text


def test_a_cancelled_compaction() -> None:
    text = "Compaction was cancelled; the conversation is as it was."
    assert old_records.completed_event({"event": "CompactionFailed", "text": text})["cancelled"] is True
    assert "cancelled" not in old_records.completed_event({"event": "CompactionFailed", "text": "No summary."})


def test_the_outcome_of_a_call() -> None:
    def outcome(summary: str, is_error: bool = True, **record: str) -> str:
        return old_records.outcome({"toolName": "Bash", **record}, ToolResultBlock("t", (), is_error), summary)

    assert outcome("denied by a hook") == "denied"
    assert outcome("interrupted") == "interrupted"
    assert outcome("exit code 1") == "failed"
    assert outcome("denied", is_error=False) == "done"
    assert old_records.denied_by("denied", "denied by plan mode") == "plan mode"
    assert old_records.denied_by("denied", "denied") == old_records.denied_by("done", "denied by plan mode") == ""
    block = ToolResultBlock("t", (TextBlock("The user accepted 1 of 3 hunks."),))
    assert old_records.accepted_hunks(block) == [1, 3]


def test_who_denied_a_call_is_recorded_and_derived_for_old_records() -> None:
    block = ToolResultBlock("t", (), is_error=True)
    event = ToolFinished(tool_use_id="t", name="Bash", result=block, outcome="denied", summary="no", denied_by="a hook")
    assert finished_call(result_fields(event), block, {}) == event
    old = finished_call({"toolName": "Bash", "outcome": "denied", "summary": "denied by you"}, block, {})
    assert old is not None
    assert old.denied_by == "you"


@each_row(
    ("name", "text", "data"),
    [
        ("Read", "1\ta\n2\tPartial: b", None),
        ("Read", "1\ta\n2\tb\n\n[Encoding: UTF-16.]", None),
        ("Read", "1\ta\n\n[Partial: lines 1–1 of 9. Continue with offset 2.]", {"partial": True}),
        ("Read", "1\ta\n\n[1 long line is cut at 2,000 characters]", {"partial": True}),
        ("BashOutput", "No new output. It is still running.", None),
        ("BashOutput", "late\n\nIt has ended: exit code 3.", {"ended": "bash_1"}),
        ("KillShell", "bash_1 was ended: make.", {"ended": "bash_1"}),
        ("ExitPlanMode", "The user has approved this plan.\n\n1. Dig.\n\n2. Plant.", {"plan": "1. Dig.\n\n2. Plant."}),
        ("ExitPlanMode", "The user has approved the plan.", {"plan": "1. Dig."}),
    ],
)
def test_the_data_of_results(name: str, text: str, data: Json | None) -> None:
    calls = [ToolUseBlock("t", name, {"bash_id": "bash_1", "plan": "1. Dig."})]
    results = Message("user", (ToolResultBlock("t", (TextBlock(text),)),), "m", Origin.TOOL_RESULTS)
    assert old_records.completed_results(results, calls).meta == ({} if data is None else {RESULT_DATA: {"t": data}})


def test_a_plan_is_added_beside_the_data_of_other_calls() -> None:
    calls = [ToolUseBlock("p", "ExitPlanMode", {}), ToolUseBlock("r", "Read", {}), ToolUseBlock("whole", "Read", {})]
    texts = {"p": "Approved.\n\n1. Dig.", "r": "1\ta", "whole": "1\ta\n\n[Partial: as the file says]"}
    blocks = tuple(ToolResultBlock(id, (TextBlock(text),)) for id, text in texts.items())
    results = Message("user", blocks, "m", Origin.TOOL_RESULTS, meta={RESULT_DATA: {"r": {"partial": True}}})
    completed = old_records.completed_results(results, calls)
    assert completed.meta == {RESULT_DATA: {"p": {"plan": "1. Dig."}, "r": {"partial": True}}}
    assert old_records.completed_results(completed, calls) == completed


def test_started_background_commands() -> None:
    call = Message("assistant", (ToolUseBlock("t", "Bash", {"command": "make"}),), "a", Origin.REPLY)
    result = ToolResultBlock("t", (TextBlock("The command runs in the background as bash_3. Read its output"),))
    messages = [call, Message("user", (result,), "b", Origin.TOOL_RESULTS)]
    assert dict(old_records.started_shells(messages)) == {"bash_3": {"command": "make"}}


def test_the_folders_of_a_system_context() -> None:
    context = "# Where you are\nWorking directory: /a\nFurther directory: /b\nPlatform: Linux"
    assert old_records.folder_lines(context) == ["Working directory: /a", "Further directory: /b"]
