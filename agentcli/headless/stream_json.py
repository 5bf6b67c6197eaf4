"""The `result` object of json and stream-json. Pure.

A failed run never reports success: its message is in both `errors` and `result`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from agentcli import __version__
from agentcli.commands.registry import names as command_names
from agentcli.core import events as ev
from agentcli.core.events import Result
from agentcli.core.ids import Ids
from agentcli.core.messages import ATTACHMENT, Block, Json, Message, Origin, ToolResultBlock, block_to_wire
from agentcli.core.usage import Usage
from agentcli.interactive.wording import event_line

_RESULT_FIELDS = (
    *("subtype", "is_error", "duration_ms", "errors", "stop_reason", "api_error_status", "total_cost_usd"),
    *("permission_denials", "background_tasks", "session_id", "uuid"),
)
_INIT_FIELDS = ("cwd", "tools", "mcp_servers", "model", "effort", "sandbox", "agents", "skills", "plugins")
"""Fields that the frames of a result and of a session's start have from their events under the same names."""


def result_frame(result: Result) -> Json:
    frame: Json = {
        "type": "result",
        **{name: getattr(result, name) for name in _RESULT_FIELDS},
        "duration_api_ms": result.api_duration_ms,
        "num_turns": result.turns,
        "terminal_reason": result.terminal,
        "cost_is_complete": result.fully_priced,
        "usage": result.usage.to_wire(),
        "modelUsage": result.model_usage,
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


PROTOCOL_VERSION = "2.1.325"
"""Release of the stdio protocol that these frames follow, sent under the name that clients check."""

_SYNTHETIC = (Origin.INTERRUPTION, Origin.RECOVERY, Origin.HOOK, Origin.ATTACHMENT, Origin.SUMMARY)

_ERROR_NAMES = {
    "authentication": "authentication_failed",
    "permission": "authentication_failed",
    "billing": "billing_error",
    "rate_limit": "rate_limit",
    "invalid_request": "invalid_request",
    "prompt_too_long": "invalid_request",
    "image": "invalid_request",
    "overloaded": "server_error",
    "server_error": "server_error",
}


class Frames:
    """One per run. `replay` echoes prompts when they become part of the conversation, `hooks` reports every hook."""

    def __init__(self, ids: Ids, replay: bool = False, hooks: bool = False) -> None:
        self._ids = ids
        self._replay = replay
        self._hooks = hooks
        self.session_id = ""
        self._shown_blocks: dict[str, list[Block]] = {}
        self._shown_results: set[str] = set()
        self._api_ids: dict[str, str] = {}
        self._usage: dict[str, Usage] = {}
        """Usage of each reply so far."""
        self._held: list[Json] = []
        """The frame of the last complete block, and that of its `content_block_stop`."""
        self._held_of = ""
        """Message id of the held block's reply; "" if nothing is held."""
        self._agent_calls: dict[str, str] = {}
        """Id of the call that started each sub-agent, by the id of the agent."""
        self._calls: dict[str, Json] = {}
        """Data about calls without a result frame yet, for clients that show them."""

    def frames(self, event: ev.Event) -> Iterator[Json]:
        if event.agent:
            # A sub-agent replies in parallel with the main agent, whose frame may still be held.
            yield from self._make(event)
            return
        if self._held_of and not _closes_block(event):
            self._learn_usage(event)
            self._held[0]["message"]["usage"] = self._usage[self._held_of].to_wire()
            yield from self._held
            self._held, self._held_of = [], ""
        made = self._make(event)
        if isinstance(event, ev.BlockFinished):
            self._held, self._held_of = list(made), event.message_id
        elif self._held_of:
            self._held += made
        else:
            yield from made

    def _learn_usage(self, event: ev.Event) -> None:
        """Take the usage of the held frame's reply from an event that ends it."""
        held = self._held_of
        match event:
            case ev.RawStreamed(data=data) if data.get("type") == "message_delta":
                self._usage[held] = self._usage[held].updated(data.get("usage"))
            case ev.UsageReported(purpose="turn"):
                self._usage[held] = event.usage
            case ev.MessageAppended(message=message) if message.id == held:
                self._usage[held] = message.usage or self._usage[held]
            case _:
                pass

    def _make(self, event: ev.Event) -> Iterator[Json]:
        match event:
            case ev.SessionStarted():
                self.session_id = event.session_id
                self._shown_blocks.clear()
                self._shown_results.clear()
                self._api_ids.clear()
                self._usage.clear()
                self._calls.clear()
                yield self._system("init", event, **_init_fields(event))
            case ev.ReplyStarted(message_id=message_id, api_id=api_id):
                self._api_ids[message_id] = api_id
                self._usage[message_id] = event.usage
            case ev.RawStreamed(data=data):
                yield self._frame("stream_event", event, event=data)
            case ev.BlockFinished():
                self._shown_blocks.setdefault(event.message_id, []).append(event.block)
                usage = self._usage.setdefault(event.message_id, Usage())
                frame = self._assistant(event, event.api_id or event.message_id, event.model, usage, event.block)
                if event.observed is not None:
                    frame["message"]["content"][0]["input"] = event.observed
                yield frame
            case ev.PermissionDecided() | ev.ToolStarted() | ev.ToolFinished():
                self._calls.setdefault(event.tool_use_id, {}).update(_call_fields(event))
            case ev.ToolResultAdded():
                self._shown_results.add(event.tool_use_id)
                yield self._tool_result(event, event.result, event.structured)
            case ev.MessageAppended(message=message):
                yield from self._frames_of_message(event, message)
            case ev.Result():
                self.session_id = event.session_id or self.session_id
                yield result_frame(event)
            case ev.ReplyTombstoned():
                yield self._tombstone(event)
            case ev.HookStarted() | ev.HookFinished() if self._hooks:
                about = _hook(event)
                yield self._system(about.pop("subtype"), event, **about)
            case _:
                yield from self._others(event)

    def _others(self, event: ev.Event) -> Iterator[Json]:
        if isinstance(event, ev.AgentStarted):
            self._agent_calls[event.agent] = event.tool_use_id
        build = _SYSTEM_FIELDS.get(type(event))
        if build is not None:
            fields = build(event)
        elif event.policy.stream_json and event.policy.line:
            fields = _notice(*event_line(event), _snake_case(type(event).__name__))
        else:
            fields = None
        if fields is not None:
            yield self._system(fields.pop("subtype"), event, **fields)
        if isinstance(event, ev.ContextCompacted):
            yield self._system("status", event, status=None)
        if isinstance(event, ev.ToolBatchSummarised):
            ids = event.tool_use_ids
            yield self._frame("tool_use_summary", event, summary=event.text, preceding_tool_use_ids=ids)

    def _frames_of_message(self, event: ev.Event, message: Message) -> Iterator[Json]:
        if message.is_copy:
            return
        if message.origin is Origin.REPLY:
            shown = self._shown_blocks.pop(message.id, [])
            for block in message.content:
                if block not in shown:
                    usage = message.usage or self._usage.get(message.id, Usage())
                    frame = self._assistant(event, message.api_id or message.id, message.model, usage, block)
                    # A block cut by the output limit has a stop reason; one cut by an abort has none.
                    yield frame if message.stop_reason else frame | {"aborted": True}
        elif message.origin is Origin.TOOL_RESULTS:
            for result in message.tool_results:
                if result.tool_use_id not in self._shown_results:
                    yield self._tool_result(event, result, None)
                self._shown_results.discard(result.tool_use_id)
        elif message.origin is Origin.ERROR:
            frame = self._assistant(event, message.id, "<synthetic>", Usage(), *message.content)
            yield frame | {"error": _ERROR_NAMES.get(str(message.meta.get("kind", "")), "unknown")}
        elif message.origin in _SYNTHETIC:
            data = message.meta.get(ATTACHMENT)
            frame = self._user(event, message) | {"isSynthetic": True}
            yield frame | {"attachment": data} if data else frame
        elif message.origin in (Origin.PROMPT, Origin.QUEUED) and self._replay:
            yield self._user(event, message) | {"isReplay": True}

    def _tombstone(self, event: ev.ReplyTombstoned) -> Json:
        self._shown_blocks.pop(event.message_id, None)
        api_id = self._api_ids.get(event.message_id) or event.message_id
        return self._system("tombstone", event, message_id=api_id, reason=event.reason)

    def _assistant(self, event: ev.Event, message_id: str, model: str, usage: Usage, *blocks: Block) -> Json:
        message = {
            "id": message_id,
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": [block_to_wire(block) for block in blocks],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage.to_wire(),
        }
        return self._frame("assistant", event, message=message)

    def _user(self, event: ev.Event, message: Message) -> Json:
        content = [block_to_wire(block) for block in message.content]
        frame = self._frame("user", event, message={"role": "user", "content": content})
        return frame | {"uuid": message.id}

    def _tool_result(self, event: ev.Event, result: ToolResultBlock, structured: Any) -> Json:
        content = [block_to_wire(result) | {"is_error": result.is_error}]
        message = {"role": "user", "content": content}
        known = self._calls.pop(result.tool_use_id, {})
        return self._frame("user", event, message=message, tool_use_result=structured, tool_call=known)

    def _system(self, subtype: str, about: ev.Event, /, **fields: Any) -> Json:
        return {
            "type": "system",
            "subtype": subtype,
            **fields,
            "session_id": self.session_id,
            "uuid": self._ids.new(),
            **({"agent_id": about.agent} if about.agent else {}),
        }

    def _frame(self, kind: str, about: ev.Event, /, **fields: Any) -> Json:
        return {
            "type": kind,
            **fields,
            "parent_tool_use_id": self._agent_calls.get(about.agent),
            "session_id": self.session_id,
            "uuid": self._ids.new(),
        }


def _closes_block(event: ev.Event) -> bool:
    """Whether the event is the API's end of a block; the end of the message may follow."""
    return isinstance(event, ev.RawStreamed) and event.data.get("type") == "content_block_stop"


def _init_fields(event: ev.SessionStarted) -> Json:
    return {
        **{name: getattr(event, name) for name in _INIT_FIELDS},
        "permissionMode": event.permission_mode,
        "slash_commands": list(dict.fromkeys((*command_names(), *event.commands, *event.skills, *event.mcp_prompts))),
        "apiKeySource": event.api_key_source,
        "fast_mode_state": "on" if event.fast else "off",
        "version": __version__,
        "claude_code_version": PROTOCOL_VERSION,
        "output_style": event.output_style or "default",
    }


def _call_fields(event: ev.PermissionDecided | ev.ToolStarted | ev.ToolFinished) -> Json:
    """Title, one-line summary, display data, duration and permission decision of a call."""
    match event:
        case ev.PermissionDecided():
            decision = {"behavior": event.behavior, "reason": event.reason, "rule": event.rule, "source": event.source}
            return {"permission": {**decision, "details": list(event.details)}}
        case ev.ToolStarted():
            return {"title": event.title}
        case ev.ToolFinished():
            return {"summary": event.summary, "duration_ms": event.duration_ms, "display": event.display}


def _encode_background(event: ev.BackgroundChanged) -> Json:
    if event.status == "running":
        return {
            "subtype": "task_started",
            "task_id": event.task_id,
            "description": event.command,
            "task_type": "local_bash",
        }
    status = {"killed": "stopped"}.get(event.status, event.status)
    return {"subtype": "task_notification", "task_id": event.task_id, "status": status, "summary": event.summary}


def _agent_started(event: ev.AgentStarted) -> Json:
    return {
        "subtype": "task_started",
        "task_id": event.agent,
        "description": event.description,
        "task_type": "local_agent",
        "subagent_type": event.name,
        "tool_use_id": event.tool_use_id,
        "is_background": event.background,
    }


def _agent_finished(event: ev.AgentFinished) -> Json:
    return {
        "subtype": "task_notification",
        "task_id": event.agent,
        "status": event.status,
        "summary": event_line(event)[0],
        "tool_use_id": event.tool_use_id,
        "usage": {"total_tokens": event.tokens, "duration_ms": event.duration_ms, "turns": event.turns},
        "total_cost_usd": event.cost_usd,
    }


def _retry(event: ev.RetryScheduled) -> Json:
    return {
        "subtype": "api_retry",
        "attempt": event.attempt,
        "max_retries": event.max_attempts,
        "retry_delay_ms": round(event.wait_seconds * 1000),
        "error_status": event.status,
        "error": event.kind,
        "text": event.text,
    }


def _boundary(event: ev.ContextCompacted) -> Json:
    metadata = {"trigger": event.trigger, "pre_tokens": event.tokens_before, "post_tokens": event.tokens_after}
    return {"subtype": "compact_boundary", "compact_metadata": metadata}


def _hook(event: ev.HookStarted | ev.HookFinished) -> Json:
    about = {"hook_id": event.hook_id, "hook_name": event.name, "hook_event": event.event_name}
    if isinstance(event, ev.HookStarted):
        return {"subtype": "hook_started", **about, "tool_use_id": event.tool_use_id or None}
    return {
        "subtype": "hook_response",
        **about,
        "tool_use_id": event.tool_use_id or None,
        "outcome": event.outcome,
        "reason": event.text,
        "source": event.source,
        "exit_code": event.exit_code,
        "stdout": event.output,
        "stderr": event.errors,
        "duration_ms": event.duration_ms,
    }


def _notice(text: str, level: str = "info", code: str = "") -> Json:
    return {"subtype": "notice", "level": level, "text": text, "code": code}


def _snake_case(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


def _copies(subtype: str, *names: str, **renamed: str) -> Callable[[Any], Json]:
    """Make a builder of frames with fields of the event, some under other names."""
    fields = {name: name for name in names} | renamed
    return lambda event: {"subtype": subtype, **{name: getattr(event, source) for name, source in fields.items()}}


def _status(status: str | None, **fields: Any) -> Json:
    return {"subtype": "status", "status": status, **fields}


_SYSTEM_FIELDS: Mapping[type[ev.Event], Callable[[Any], Json | None]] = {
    ev.RequestStarted: lambda event: _status("requesting") if event.purpose == "turn" else None,
    ev.CompactionStarted: lambda event: _status("compacting", trigger=event.trigger),
    ev.ContextCompacted: _boundary,
    ev.ContextEdited: _copies("context_edited", "step", "freed_tokens", "text"),
    ev.PrefixBroken: _copies("prefix_broken", "block", "reason", "rebilled_tokens"),
    ev.RetryScheduled: _retry,
    ev.ModelFellBack: _copies("model_fallback", "from_model", "to_model", "reason"),
    ev.PermissionDenied: _copies("permission_denied", "tool_use_id", "reason", tool_name="name", tool_input="input"),
    ev.BackgroundChanged: _encode_background,
    ev.AgentStarted: _agent_started,
    ev.AgentFinished: _agent_finished,
    ev.ModeChanged: lambda event: _status(None, permissionMode=event.mode, reason=event.reason),
    ev.NoticeRaised: lambda event: _notice(event.text, event.level, event.code),
    ev.HookStarted: lambda _event: None,
    ev.HookFinished: lambda event: _notice(*event_line(event), "hook") if event.is_notable else None,
    ev.RequestRepaired: lambda event: _notice(*event_line(event), event.repair),
    ev.StreamWentQuiet: lambda event: _notice(*event_line(event), "stream_quiet"),
}
"""Builders of the `system` frame by event type; None: no frame. All others that have a line get a `notice` frame."""
