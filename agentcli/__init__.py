"""agentcli: an interactive terminal coding agent, and the same loop as a library.

    from agentcli import Result, query

Names are resolved on first use (PEP 562), so that `import agentcli` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from agentcli.agent.engine import Engine
    from agentcli.assemble import Options, build_engine
    from agentcli.context.edits import ContextEdit, block_id
    from agentcli.context.steps import ContextState, StepPlan
    from agentcli.core.abort import AbortReason
    from agentcli.core.errors import AgentError, CredentialError, UsageError
    from agentcli.core.events import (
        AgentFinished,
        AgentMoved,
        AgentStarted,
        BackgroundChanged,
        BlockFinished,
        BlockStarted,
        CommandChangedFiles,
        CommandEntered,
        CompactionFailed,
        CompactionProposed,
        CompactionStarted,
        ContextCompacted,
        ContextEdited,
        ContextPinned,
        DirectoryChanged,
        Event,
        FeatureDropped,
        HookFinished,
        HookStarted,
        LoopContinued,
        LoopEnded,
        LoopSuspected,
        MessageAppended,
        ModeChanged,
        ModelFellBack,
        NoticeRaised,
        PermissionDecided,
        PermissionDenied,
        PermissionRequested,
        PermissionResolved,
        PrefixBroken,
        RawStreamed,
        ReplyStarted,
        ReplyTombstoned,
        RequestRepaired,
        RequestStarted,
        Result,
        RetryScheduled,
        RulesLearned,
        SessionResumed,
        SessionStarted,
        StreamWentQuiet,
        SubmissionInterrupted,
        TextStreamed,
        ThinkingStreamed,
        TodosChanged,
        ToolBatchSummarised,
        ToolFinished,
        ToolInputStreamed,
        ToolProgressed,
        ToolResultAdded,
        ToolStarted,
        UsageReported,
    )
    from agentcli.core.messages import ImageBlock, Message, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
    from agentcli.core.permission import Answer, PermissionMode
    from agentcli.core.usage import Usage
    from agentcli.hooks.rules import HookRule
    from agentcli.plugins.plugin import Plugin, ToolCall
    from agentcli.providers.base import Failure, FailureKind, Provider
    from agentcli.providers.transports.base import Transport, TransportFailure
    from agentcli.sdk import query
    from agentcli.tools.base import Output, Progress, Tool, ToolContext
    from agentcli.tools.function import tool

__all__ = [
    "AbortReason",
    "AgentError",
    "AgentFinished",
    "AgentMoved",
    "AgentStarted",
    "Answer",
    "BackgroundChanged",
    "BlockFinished",
    "BlockStarted",
    "CommandChangedFiles",
    "CommandEntered",
    "CompactionFailed",
    "CompactionProposed",
    "CompactionStarted",
    "ContextCompacted",
    "ContextEdit",
    "ContextEdited",
    "ContextPinned",
    "ContextState",
    "CredentialError",
    "DirectoryChanged",
    "Engine",
    "Event",
    "Failure",
    "FailureKind",
    "FeatureDropped",
    "HookFinished",
    "HookRule",
    "HookStarted",
    "ImageBlock",
    "LoopContinued",
    "LoopEnded",
    "LoopSuspected",
    "Message",
    "MessageAppended",
    "ModeChanged",
    "ModelFellBack",
    "NoticeRaised",
    "Options",
    "Output",
    "PermissionDecided",
    "PermissionDenied",
    "PermissionMode",
    "PermissionRequested",
    "PermissionResolved",
    "Plugin",
    "PrefixBroken",
    "Progress",
    "Provider",
    "RawStreamed",
    "ReplyStarted",
    "ReplyTombstoned",
    "RequestRepaired",
    "RequestStarted",
    "Result",
    "RetryScheduled",
    "RulesLearned",
    "SessionResumed",
    "SessionStarted",
    "StepPlan",
    "StreamWentQuiet",
    "SubmissionInterrupted",
    "TextBlock",
    "TextStreamed",
    "ThinkingBlock",
    "ThinkingStreamed",
    "TodosChanged",
    "Tool",
    "ToolBatchSummarised",
    "ToolCall",
    "ToolContext",
    "ToolFinished",
    "ToolInputStreamed",
    "ToolProgressed",
    "ToolResultAdded",
    "ToolResultBlock",
    "ToolStarted",
    "ToolUseBlock",
    "Transport",
    "TransportFailure",
    "Usage",
    "UsageError",
    "UsageReported",
    "block_id",
    "build_engine",
    "query",
    "tool",
]

_NAMES = {
    "agentcli.agent.engine": ("Engine",),
    "agentcli.assemble": (
        "Options",
        "build_engine",
    ),
    "agentcli.context.edits": ("ContextEdit", "block_id"),
    "agentcli.context.steps": ("ContextState", "StepPlan"),
    "agentcli.core.abort": ("AbortReason",),
    "agentcli.core.errors": (
        "AgentError",
        "CredentialError",
        "UsageError",
    ),
    "agentcli.core.messages": (
        "ImageBlock",
        "Message",
        "TextBlock",
        "ThinkingBlock",
        "ToolResultBlock",
        "ToolUseBlock",
    ),
    "agentcli.core.permission": (
        "Answer",
        "PermissionMode",
    ),
    "agentcli.core.usage": ("Usage",),
    "agentcli.hooks.rules": ("HookRule",),
    "agentcli.plugins.plugin": ("Plugin", "ToolCall"),
    "agentcli.providers.base": ("Failure", "FailureKind", "Provider"),
    "agentcli.providers.transports.base": ("Transport", "TransportFailure"),
    "agentcli.sdk": ("query",),
    "agentcli.tools.base": (
        "Output",
        "Progress",
        "Tool",
        "ToolContext",
    ),
    "agentcli.tools.function": ("tool",),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}
"""Module of each name; all other names of `__all__` are events."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'agentcli' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES.get(name, "agentcli.core.events")), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
