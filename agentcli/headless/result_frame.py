"""The `result` object of json and stream-json. Pure.

A failed run never reports success: its message is in both `errors` and `result`.
"""

from __future__ import annotations

from agentcli.core.events import Result
from agentcli.core.messages import Json
from agentcli.core.usage import Usage


def result_frame(result: Result) -> Json:
    frame: Json = {
        "type": "result",
        "subtype": result.subtype,
        "is_error": result.is_error,
        "duration_ms": result.duration_ms,
        "duration_api_ms": result.api_duration_ms,
        "num_turns": result.turns,
        "errors": result.errors,
        "stop_reason": result.stop_reason,
        "terminal_reason": result.terminal,
        "api_error_status": result.api_error_status,
        "total_cost_usd": result.total_cost_usd,
        "cost_is_complete": result.fully_priced,
        "usage": result.usage.to_wire(),
        "modelUsage": result.model_usage,
        "permission_denials": result.permission_denials,
        "background_tasks": result.background_tasks,
        "session_id": result.session_id,
        "uuid": result.uuid,
    }
    # Scripts that only read `result` must see an error there too.
    frame["result"] = "\n".join(result.errors) if result.is_error else result.text
    if result.structured_output is not None:
        frame["structured_output"] = result.structured_output
    return frame


def failure_frame(message: str, session_id: str, uuid: str) -> Json:
    """The result of a run that ended before or outside any submission."""
    return result_frame(
        Result(
            subtype="error_during_execution",
            is_error=True,
            terminal="not_started",
            text="",
            errors=[message],
            turns=0,
            duration_ms=0,
            api_duration_ms=0,
            usage=Usage(),
            total_cost_usd=0.0,
            fully_priced=True,
            model_usage={},
            permission_denials=[],
            session_id=session_id,
            uuid=uuid,
        )
    )
