from __future__ import annotations

import json
from typing import Any

import pytest

from agentcli.hooks.answers import MAX_TEXT, HookAnswer, HookOutput, answer_of
from tests.support.tables import each_row


def printed(event: str, value: Any) -> HookAnswer:
    return answer_of(event, HookOutput(stdout=json.dumps(value)))


def test_nothing_printed_lets_everything_go_on() -> None:
    assert answer_of("PreToolUse", HookOutput()) == HookAnswer()
    assert answer_of("PreToolUse", HookOutput(stdout="formatted 3 files\n")) == HookAnswer()


@pytest.mark.parametrize("event", ["SessionStart", "UserPromptSubmit"])
def test_text_on_standard_output_is_context_at_the_start(event: str) -> None:
    assert answer_of(event, HookOutput(stdout="It is Monday.\n")).context == "It is Monday."


def test_exit_code_2_denies_a_call_and_blocks_the_rest() -> None:
    blocked = HookOutput(exit_code=2, stderr="No.\n")
    assert answer_of("PreToolUse", blocked) == HookAnswer("denied", "No.", decision="deny", reason="No.")
    assert answer_of("Stop", blocked) == HookAnswer("blocked", "No.", reason="No.", blocked=True)
    assert answer_of("Stop", HookOutput(exit_code=2)).reason == "It gave no reason."


def test_other_exit_codes_only_warn() -> None:
    answer = answer_of("PreToolUse", HookOutput(exit_code=127, stderr="sh: nope: not found\n"))
    assert (answer.outcome, answer.decision) == ("failed", "none")
    assert answer.text == "exit code 127: sh: nope: not found"


@each_row(
    "output",
    ["{broken", '{"decision": 3}', '{"hookSpecificOutput": []}', '{"continue": "no"}', '{"systemMessage": 1}'],
)
def test_junk_is_a_warning(output: str) -> None:
    answer = answer_of("PreToolUse", HookOutput(stdout=output))
    assert answer.outcome == "failed"
    assert answer.decision == "none"


def test_a_permission_decision_with_a_changed_input_and_context() -> None:
    answer = printed(
        "PreToolUse",
        {
            "systemMessage": "changed",
            "suppressOutput": True,
            "hookSpecificOutput": {
                "permissionDecision": "allow",
                "permissionDecisionReason": "fine",
                "updatedInput": {"command": "ls"},
                "additionalContext": "Listed.",
            },
        },
    )
    assert (answer.decision, answer.reason, answer.updated_input) == ("allow", "fine", {"command": "ls"})
    assert (answer.context, answer.message, answer.quiet) == ("Listed.", "changed", True)


def test_the_older_decisions_still_work() -> None:
    assert printed("PreToolUse", {"decision": "approve", "reason": "ok"}).decision == "allow"
    assert printed("PreToolUse", {"decision": "block", "reason": "no"}).decision == "deny"
    assert printed("PostToolUse", {"decision": "block", "reason": "no"}).blocked


def test_continue_false_stops_with_its_reason() -> None:
    assert printed("PostToolUse", {"continue": False, "stopReason": "Enough."}).stop == "Enough."
    assert printed("PostToolUse", {"continue": False}).stop == "A hook stopped the work."
    assert printed("PostToolUse", {"continue": True}).stop is None


def test_a_permission_request_is_answered() -> None:
    allow = {"hookSpecificOutput": {"decision": {"behavior": "allow", "updatedInput": {"a": 1}}}}
    deny = {"hookSpecificOutput": {"decision": {"behavior": "deny", "message": "No.", "interrupt": True}}}
    assert printed("PermissionRequest", allow).updated_input == {"a": 1}
    answer = printed("PermissionRequest", deny)
    assert (answer.decision, answer.reason, answer.interrupt) == ("deny", "No.", True)


def test_control_sequences_and_floods_do_not_get_through() -> None:
    flood = answer_of("Stop", HookOutput(exit_code=2, stderr="\x1b]0;title\x07\x1b[31mred\x9b2J" + "x" * 50_000))
    assert "\x1b" not in flood.reason
    assert "\x9b" not in flood.reason
    assert flood.reason.startswith("red")
    assert len(flood.reason) <= MAX_TEXT


def test_the_values_of_functions() -> None:
    assert answer_of("Stop", HookOutput(exit_code=None, returned="text")).context == "text"
    assert answer_of("Stop", HookOutput(exit_code=None, returned={"decision": "block", "reason": "r"})).blocked
    assert answer_of("Stop", HookOutput(exit_code=None, returned=3)).outcome == "failed"
