from __future__ import annotations

import json
from typing import Any

from agentcli.hooks.answers import MAX_TEXT, HookAnswer, HookOutput, answer_of
from tests.support.tables import each_row


@each_row(
    ("event", "output", "answer"),
    [
        ("PreToolUse", HookOutput(), HookAnswer()),
        ("PreToolUse", HookOutput(stdout="formatted 3 files\n"), HookAnswer()),
        *(
            (event, HookOutput(stdout="Mon.\n"), HookAnswer(context="Mon."))
            for event in ("SessionStart", "UserPromptSubmit")
        ),
        (
            "PreToolUse",
            HookOutput(exit_code=2, stderr="No.\n"),
            HookAnswer("denied", "No.", decision="deny", reason="No."),
        ),
        ("Stop", HookOutput(exit_code=2, stderr="No.\n"), HookAnswer("blocked", "No.", reason="No.", blocked=True)),
        ("PreToolUse", HookOutput(exit_code=127, stderr="sh: nope\n"), HookAnswer("failed", "exit code 127: sh: nope")),
        ("Stop", HookOutput(exit_code=None, returned="text"), HookAnswer(context="text")),
    ],
)
def test_exit_codes_texts_and_values_have_their_meaning(event: str, output: HookOutput, answer: HookAnswer) -> None:
    assert answer_of(event, output) == answer


@each_row(
    "output",
    [
        *(
            HookOutput(stdout=text)
            for text in (
                "{broken",
                '{"decision": 3}',
                '{"hookSpecificOutput": []}',
                '{"continue": "no"}',
                '{"systemMessage": 1}',
            )
        ),
        HookOutput(exit_code=None, returned=3),
    ],
)
def test_junk_is_a_warning(output: HookOutput) -> None:
    answer = answer_of("PreToolUse", output)
    assert (answer.outcome, answer.decision) == ("failed", "none")


ALLOW = {
    "permissionDecision": "allow",
    "permissionDecisionReason": "fine",
    "updatedInput": {"command": "ls"},
    "additionalContext": "Listed.",
}
DENY = {"decision": {"behavior": "deny", "message": "No.", "interrupt": True}}


@each_row(
    ("event", "printed", "expected"),
    [
        ("PreToolUse", {"hookSpecificOutput": ALLOW}, {"decision": "allow", "reason": "fine", "context": "Listed."}),
        ("PreToolUse", {"hookSpecificOutput": ALLOW}, {"updated_input": {"command": "ls"}, "quiet": False}),
        ("PreToolUse", {"systemMessage": "changed", "suppressOutput": True}, {"message": "changed", "quiet": True}),
        ("PreToolUse", {"decision": "approve", "reason": "ok"}, {"decision": "allow"}),
        ("PreToolUse", {"decision": "block", "reason": "no"}, {"decision": "deny"}),
        ("PostToolUse", {"decision": "block", "reason": "no"}, {"blocked": True}),
        ("PostToolUse", {"decision": "block"}, {"reason": "It gave no reason."}),
        ("PostToolUse", {"continue": False, "stopReason": "Enough."}, {"stop": "Enough."}),
        ("PostToolUse", {"continue": False}, {"stop": "A hook stopped the work."}),
        ("PostToolUse", {"continue": True}, {"stop": None}),
        (
            "PermissionRequest",
            {"hookSpecificOutput": {"decision": {"behavior": "allow", "updatedInput": {"a": 1}}}},
            {"decision": "allow", "updated_input": {"a": 1}},
        ),
        ("PermissionRequest", {"hookSpecificOutput": DENY}, {"decision": "deny", "reason": "No.", "interrupt": True}),
    ],
)
def test_printed_or_returned_json_decides(event: str, printed: Any, expected: dict[str, Any]) -> None:
    for output in (HookOutput(stdout=json.dumps(printed)), HookOutput(exit_code=None, returned=printed)):
        answer = answer_of(event, output)
        assert {name: getattr(answer, name) for name in expected} == expected


def test_control_sequences_and_floods_do_not_get_through() -> None:
    flood = answer_of("Stop", HookOutput(exit_code=2, stderr="\x1b]0;title\x07\x1b[31mred\x9b2J" + "x" * 50_000))
    assert not {"\x1b", "\x9b"} & set(flood.reason)
    assert flood.reason.startswith("red")
    assert len(flood.reason) <= MAX_TEXT
