"""Interpret the output of a hook: exit codes, JSON on standard output, values that Python functions return."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, cast

from agentcli.core.files.access import MAX_INPUT_DEPTH, parse_json
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json, clean_text
from agentcli.core.text.plaintext import plain_line, plain_text

MAX_TEXT = 10_000
"""Maximum characters of a text for the model or the user."""
CONTEXT_EVENTS = ("SessionStart", "UserPromptSubmit")
"""Events whose text on standard output is passed to the model."""
_BLOCKED = 2
"""Exit code with which a hook blocks."""
_TAIL_SHOWN = 300

Ending = Literal["exited", "timed_out", "crashed", "cancelled"]
Decision = Literal["none", "allow", "ask", "deny"]
Outcome = Literal[
    "success", "allowed", "asked", "denied", "blocked", "stopped", "failed", "timed_out", "crashed", "cancelled"
]


@frozen
class HookOutput:
    """How a hook ended, and its output or return value."""

    ending: Ending = "exited"
    exit_code: int | None = 0
    """Exit code; None: it is a function, or it was stopped."""
    stdout: str = ""
    stderr: str = ""
    returned: Any = None
    """Return value of a function."""
    detail: str = ""
    """Why it did not start or end properly."""


@frozen
class HookAnswer:
    """The decision of a hook. The default lets everything continue."""

    outcome: Outcome = "success"
    text: str = ""
    """The reason or the problem, for the user."""
    decision: Decision = "none"
    reason: str = ""
    """Reason for the model."""
    updated_input: Json | None = None
    context: str = ""
    """Text for the model."""
    blocked: bool = False
    stop: str | None = None
    """Not None: the submission must end, for this reason."""
    message: str = ""
    """`systemMessage`: a text for the user."""
    interrupt: bool = False
    """A denied PermissionRequest also ends the submission."""
    quiet: bool = False
    """`suppressOutput`: its output is not shown."""

    @property
    def failed(self) -> bool:
        """Whether it gave no answer: it timed out or crashed."""
        return self.outcome in ("timed_out", "crashed")


def answer_of(event: str, output: HookOutput) -> HookAnswer:
    if output.ending != "exited":
        return HookAnswer(output.ending, output.detail)
    if output.exit_code == _BLOCKED:
        reason = _text(output.stderr) or "It gave no reason."
        return _block(event, reason)
    if output.exit_code:
        tail = plain_line(output.stderr.strip()[-_TAIL_SHOWN:] or output.detail, _TAIL_SHOWN)
        return HookAnswer("failed", f"exit code {output.exit_code}" + (f": {tail}" if tail else ""))
    if output.returned is not None:
        return _from_value(event, output.returned)
    printed = output.stdout.strip()
    if not printed.startswith("{"):
        return HookAnswer(context=_text(printed)) if event in CONTEXT_EVENTS else HookAnswer()
    try:
        value = parse_json(printed, deepest=MAX_INPUT_DEPTH)
    except ValueError as error:
        return HookAnswer("failed", f"its output is not valid JSON: {plain_line(str(error), 200)}")
    return _from_json(event, value)


def _from_value(event: str, value: Any) -> HookAnswer:
    if isinstance(value, str):
        return HookAnswer(context=_text(value))
    if not isinstance(value, Mapping):
        return HookAnswer("failed", f"it returned a {type(value).__name__}; use a dict, a string or None")
    return _from_json(event, dict(value))


def _block(event: str, reason: str) -> HookAnswer:
    if event in ("PreToolUse", "PermissionRequest"):
        return HookAnswer("denied", reason, decision="deny", reason=reason)
    return HookAnswer("blocked", reason, reason=reason, blocked=True)


def _from_json(event: str, value: Json) -> HookAnswer:
    wrong = [name for name, kind in _KINDS.items() if value.get(name) is not None and not isinstance(value[name], kind)]
    if wrong:
        return HookAnswer("failed", f"its field {wrong[0]!r} has the wrong type")
    special = value.get("hookSpecificOutput") or {}
    reason = _text(value.get("reason") or "")
    answer = HookAnswer()
    if value.get("decision") == "block":
        answer = _block(event, reason or "It gave no reason.")
    elif value.get("decision") == "approve" and event == "PreToolUse":
        answer = HookAnswer("allowed", reason, decision="allow", reason=reason)
    if event == "PreToolUse":
        answer = _pre_tool(answer, special)
    elif event == "PermissionRequest":
        answer = _permission(answer, special)
    context = special.get("additionalContext")
    answer = replace(
        answer,
        context=_text(context) if isinstance(context, str) else "",
        message=_text(value.get("systemMessage") or ""),
        quiet=value.get("suppressOutput") is True,
    )
    if value.get("continue") is False:
        why = _text(value.get("stopReason") or "") or answer.reason or "A hook stopped the work."
        answer = replace(answer, outcome="stopped", stop=why, text=why)
    return answer


_KINDS: Mapping[str, type] = {
    "continue": bool,
    "stopReason": str,
    "systemMessage": str,
    "suppressOutput": bool,
    "decision": str,
    "reason": str,
    "hookSpecificOutput": dict,
}


def _pre_tool(answer: HookAnswer, special: Json) -> HookAnswer:
    decided, why, updated = (
        special.get(name) for name in ("permissionDecision", "permissionDecisionReason", "updatedInput")
    )
    reason = _text(why) if isinstance(why, str) else ""
    outcomes: Mapping[Any, Outcome] = {"allow": "allowed", "ask": "asked", "deny": "denied"}
    if isinstance(decided, str) and decided in outcomes:
        answer = HookAnswer(outcomes[decided], reason, decision=cast("Decision", decided), reason=reason)
    elif decided is not None:
        answer = HookAnswer("failed", f"its permissionDecision {plain_line(repr(decided), 80)} is unknown")
    return replace(answer, updated_input=updated) if isinstance(updated, dict) else answer


def _permission(answer: HookAnswer, special: Json) -> HookAnswer:
    decision = special.get("decision")
    if not isinstance(decision, dict):
        return answer
    message, updated = decision.get("message"), decision.get("updatedInput")
    reason = _text(message) if isinstance(message, str) else ""
    match decision.get("behavior"):
        case "allow":
            answer = HookAnswer("allowed", reason, decision="allow", reason=reason)
            return replace(answer, updated_input=updated) if isinstance(updated, dict) else answer
        case "deny":
            interrupt = decision.get("interrupt") is True
            return HookAnswer("denied", reason, decision="deny", reason=reason, interrupt=interrupt)
        case other:
            return HookAnswer("failed", f"its behavior {plain_line(repr(other), 80)} is unknown")


def _text(text: str) -> str:
    """Clean and limit a text of a hook: it is shown on the screen and sent to the model."""
    return clean_text(plain_text(text[: MAX_TEXT * 2])).strip()[:MAX_TEXT]
