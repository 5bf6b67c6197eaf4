"""All events: frozen plain data, named in the past tense.

Front ends see the loop only through events. They contain only JSON-able values: no futures, callbacks or live objects.
Each names its agent ("" is the main one), so sub-agents need no wrapper. A field named `message`, `block`, `usage` or
`result` has the form of `core.messages`; all others are plain JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from agentcli.core.context_events import CompactionFailed as CompactionFailed
from agentcli.core.context_events import CompactionProposed as CompactionProposed
from agentcli.core.context_events import CompactionStarted as CompactionStarted
from agentcli.core.context_events import ContextCompacted as ContextCompacted
from agentcli.core.context_events import ContextEdited as ContextEdited
from agentcli.core.context_events import ContextPinned as ContextPinned
from agentcli.core.context_events import PrefixBroken as PrefixBroken
from agentcli.core.event_base import USER_AGENT as USER_AGENT
from agentcli.core.event_base import Event as Event
from agentcli.core.event_base import is_of_subagent as is_of_subagent
from agentcli.core.extension_events import AgentFinished as AgentFinished
from agentcli.core.extension_events import AgentMoved as AgentMoved
from agentcli.core.extension_events import AgentStarted as AgentStarted
from agentcli.core.extension_events import HookFinished as HookFinished
from agentcli.core.extension_events import HookStarted as HookStarted
from agentcli.core.frozen import frozen
from agentcli.core.messages import Block, Json, Message, ToolResultBlock
from agentcli.core.usage import Usage


@frozen(kw_only=True)
class SessionStarted(Event, recorded="no", line=False, scope="submission", changes_status=True):
    """First event of every submission: the active configuration."""

    session_id: str
    cwd: str
    model: str
    tools: list[str]
    permission_mode: str
    api_key_source: str = ""
    effort: str = ""
    fast: bool = False
    """Whether requests use fast mode."""
    sandbox: str = ""
    """State of the sandbox: `bubblewrap, network on`, `off`, `not available`."""
    commands: list[str] = field(default_factory=list)
    """Names of slash commands from files and plugins."""
    skills: list[str] = field(default_factory=list)
    output_style: str = ""
    """Name of the output style; "" for the default one."""
    agents: list[str] = field(default_factory=list)
    """Names of the sub-agents that can be started."""
    plugins: list[Json] = field(default_factory=list)
    """Python plugins in use: `{"name": "…", "path": "…"}`, with "" for the path of an installed package."""
    mcp_servers: list[Json] = field(default_factory=list)
    """MCP servers: `{"name": "…", "status": "…"}`; status: connected, pending, failed, needs-auth or disabled."""
    mcp_prompts: list[str] = field(default_factory=list)
    """Names of slash commands for the prompts of connected MCP servers."""


@frozen(kw_only=True)
class MessageAppended(Event, recorded="state", line=False, before_request=True, changes_status=True):
    """The log grew by this message. Stored before it is shown, or with the next request."""

    message: Message


@frozen(kw_only=True)
class CommandEntered(Event, line=False, stream_json=False):
    """The user entered a slash command or a shell line. Recorded for resuming; front ends have already shown it."""

    text: str


@frozen(kw_only=True)
class SubmissionInterrupted(Event, stderr="never", stream_json=False):
    """The user stopped the running work. Recorded for resuming; front ends have already shown it."""

    steering: bool = False
    """A new prompt interrupted it and follows."""


@frozen(kw_only=True)
class SessionResumed(Event, recorded="no", line=False, stream_json=False):
    """Only in the history of a session: later events are from another process, with separate totals."""

    cut_off: bool = False
    """The process before it ended in the middle of a submission, without a Result."""


@frozen(kw_only=True)
class NoticeRaised(Event, stderr="always", scope="parent"):
    """A notice for the user that needs no answer."""

    text: str
    level: str = "info"
    """info, warning or error."""
    code: str = ""


@frozen(kw_only=True)
class RequestStarted(Event, recorded="no", line=False, before_request=True):
    model: str
    turn: int
    purpose: str = "turn"
    """turn or compact."""
    estimated_tokens: int = 0


@frozen(kw_only=True)
class ReplyStarted(Event, recorded="no", line=False, stream_json=False):
    """A reply begins; `message_id` is the id that its message will have in the log."""

    message_id: str
    api_id: str
    model: str
    usage: Usage = Usage()
    """Usage known at the start: the prompt's tokens, and hardly any of the reply's."""


@frozen(kw_only=True)
class BlockStarted(
    Event, recorded="no", counted=False, line=False, stream_json=False, before_request=True, after_interrupt=False
):
    message_id: str
    index: int
    kind: str
    name: str = ""
    """The tool's name, when kind is tool_use."""


@frozen(kw_only=True)
class TextStreamed(Event, recorded="no", counted=False, line=False, stream_json=False, after_interrupt=False):
    message_id: str
    index: int
    text: str


@frozen(kw_only=True)
class ThinkingStreamed(Event, recorded="no", counted=False, line=False, stream_json=False, after_interrupt=False):
    message_id: str
    index: int
    text: str


@frozen(kw_only=True)
class ToolInputStreamed(
    Event, recorded="no", counted=False, line=False, stream_json=False, before_request=True, after_interrupt=False
):
    message_id: str
    index: int
    text: str


@frozen(kw_only=True)
class BlockFinished(Event, recorded="state", counted=False, line=False, before_request=True, after_interrupt=False):
    """One block of a reply is complete. Stored before it is shown."""

    message_id: str
    api_id: str
    model: str
    index: int
    block: Block
    duration_ms: int | None = None
    """From its start to its end; None if not measured."""
    observed: Json | None = None
    """For a call: its input with derived fields such as absolute paths, for other programs. Not recorded."""


@frozen(kw_only=True)
class ReplyTombstoned(Event, recorded="state", stderr="never"):
    """The reply so far is void: remove it from the screen. A retry or an error follows."""

    message_id: str
    reason: str


@frozen(kw_only=True)
class RawStreamed(Event, recorded="no", counted=False, line=False, scope="submission"):
    """One unchanged API event; only on request."""

    data: Json


@frozen(kw_only=True)
class UsageReported(Event, recorded="state", line=False, stream_json=False, before_request=True, changes_status=True):
    """The usage that a response reported at its end, even after a failure."""

    model: str
    usage: Usage
    estimated_tokens: int = 0
    """Output tokens in `usage` that were not reported: an estimate for a reply that was stopped."""
    cost_usd: float | None
    """None: the price of this model is unknown."""
    purpose: str = "turn"
    duration_ms: int = 0
    first_ms: int = 0
    """From the request to the first block of the reply; 0: unknown."""
    transition: str = ""
    """Of a turn: why the loop sent the request, as in `LoopContinued`; "" for the first of a submission."""
    request: str = ""
    """Of a turn: digest of the request, by which a replay tells whether it would send the same."""
    pauses: list[list[int]] = field(default_factory=list)
    """Of a turn: long pauses in the stream of its reply, as `[milliseconds since the request, their length]`."""
    max_tokens: int = 0
    """Of a turn: output limit of the request, without the budget of enabled thinking."""


@frozen(kw_only=True)
class RetryScheduled(Event, stderr="terminal", after_interrupt=False):
    attempt: int
    max_attempts: int
    wait_seconds: float
    kind: str
    text: str
    status: int | None = None


@frozen(kw_only=True)
class StreamWentQuiet(Event, recorded="no", stderr="terminal"):
    """No data for a while; not yet an error."""

    seconds: float


@frozen(kw_only=True)
class ModelFellBack(Event, stderr="terminal", changes_status=True):
    from_model: str
    to_model: str
    reason: str


@frozen(kw_only=True)
class FeatureDropped(Event):
    """The endpoint refused a parameter; it is no longer sent there."""

    feature: str
    text: str
    model: str = ""
    """The model of the refused request."""
    requested: bool = False
    """Whether the user turned the feature on."""


@frozen(kw_only=True)
class RequestRepaired(Event, recorded="state"):
    """The API refused part of the history; requests leave it out from here on, up to the message `through`."""

    repair: str
    """strip_thinking, drop_images, flatten_tools, leave_out_prompt or leave_out_unchecked."""
    through: str
    text: str


@frozen(kw_only=True)
class ToolStarted(Event, counted=False, line=False, stream_json=False, before_request=True, after_interrupt=False):
    tool_use_id: str
    name: str
    input: Json
    title: str
    """One line for the user, e.g. `Read src/app.py`."""


@frozen(kw_only=True)
class ToolProgressed(Event, recorded="no", counted=False, line=False, stream_json=False, after_interrupt=False):
    """Progress of a tool; not kept in the log. `text` is further output, or, if `data` has `done`, a description of the
    progress.

    Output that begins with a carriage return replaces the last row, unless that has ended. Of long output only the end
    is sent; `lines` in `data` counts the line breaks of all of it so far.
    """

    tool_use_id: str
    text: str = ""
    data: Json = field(default_factory=dict)


@frozen(kw_only=True)
class ToolFinished(Event, recorded="state", counted=False, line=False, stream_json=False):
    """A tool has ended; the order may differ from the calls. Stored before it is shown if the call may have changed
    something, else with the next request."""

    tool_use_id: str
    name: str
    result: ToolResultBlock
    summary: str = ""
    """One line for the user: counts, size, exit code."""
    display: Json = field(default_factory=dict)
    structured: Any = None
    duration_ms: int = 0
    outcome: str = ""
    """done, denied, interrupted or failed."""
    denied_by: str = ""
    """Who denied the call, as in `PermissionDenied.by`; "" if it was not denied, or was refused because the session is
    non-interactive."""
    accepted_hunks: list[int] = field(default_factory=list)
    """For a partly accepted change: accepted and total number of hunks."""


@frozen(kw_only=True)
class CommandChangedFiles(Event, line=False, stream_json=False):
    """Files that changed while a command ran; follows its `ToolFinished` when they are compared."""

    tool_use_id: str
    files: int
    added: int
    """Lines added."""
    removed: int
    diff: str
    """The beginning of the unified diff."""
    is_cut: bool = False
    """Whether `diff` leaves something out."""


@frozen(kw_only=True)
class ToolResultAdded(Event, recorded="no", counted=False, line=False, before_request=True):
    """The result of a call, in the order of the calls."""

    tool_use_id: str
    name: str
    result: ToolResultBlock
    structured: Any = None


@frozen(kw_only=True)
class TodosChanged(Event, recorded="no", line=False, stream_json=False, changes_status=True):
    """The complete current task list."""

    todos: list[Json]


@frozen(kw_only=True)
class BackgroundChanged(Event, recorded="state", stderr="never", changes_status=True):
    """A background command has started or ended."""

    task_id: str
    status: str
    """running, completed, failed or killed."""
    command: str
    summary: str = ""


@frozen(kw_only=True)
class DirectoryChanged(Event, recorded="state", line=False, stream_json=False, changes_status=True):
    """Later calls run in this folder."""

    cwd: str


@frozen(kw_only=True)
class ToolBatchSummarised(Event, recorded="no", line=False):
    tool_use_ids: list[str]
    text: str


@frozen(kw_only=True)
class PermissionRequested(Event, recorded="no", line=False, stream_json=False, scope="parent", after_interrupt=False):
    """A call needs approval. Answer with `Engine.answer(request_id, Answer(...))`."""

    request_id: str
    tool_use_id: str
    name: str
    input: Json
    title: str
    reason: str
    suggestions: list[str] = field(default_factory=list)
    """The allow rules, one per part of a command, that would make this question unnecessary; saved by "always"."""
    rule_choices: list[Json] = field(default_factory=list)
    """Alternatives that "always" can save, the most useful first: `{"rules": […], "covers": "…", "note": "…"}`
    (`RuleChoice`). The first has the rules of `suggestions`. Empty if no rule can cover the call."""
    display: Json = field(default_factory=dict)
    """Preview of the call in the form of a tool's display: a diff, the parsed command, a plan."""
    details: list[str] = field(default_factory=list)
    """Reasons for the question, part by part, if `reason` is not enough."""
    findings: list[Json] = field(default_factory=list)
    """The reasons as data: `{"part": "…", "clause": "…", "allowed": false}` (`PartFinding`)."""
    cause: str = ""
    """Why approval is needed, as a clause after "because". Empty if `reason` is a complete statement."""
    cause_listed: bool = False
    """Whether the cause is the clause of one of the findings."""
    self_evident: bool = False
    """Whether the reason says only that such a call needs approval."""


@frozen(kw_only=True)
class PermissionResolved(Event, recorded="no", line=False, stream_json=False, scope="parent"):
    request_id: str
    tool_use_id: str
    behavior: str
    """allow, deny, or withdrawn if the submission ended first."""


@frozen(kw_only=True)
class PermissionDecided(Event, recorded="no", counted=False, line=False, stream_json=False, before_request=True):
    """The decision about a call and its source. Every call has one before it runs, asks or is refused."""

    tool_use_id: str
    name: str
    behavior: str
    reason: str
    rule: str = ""
    source: str = ""
    details: list[str] = field(default_factory=list)
    """Reasons, part by part, if `reason` is not enough."""


@frozen(kw_only=True)
class RulesLearned(Event, stderr="never", stream_json=False, scope="session"):
    """Allow rules added by an answer, and where they are stored (`session` or a file)."""

    rules: list[str]
    where: str
    tool_use_id: str = ""
    """The call whose question was answered; "" for none, and in files of earlier versions."""


MODE_CHOSEN = "the user chose it"
"""Reason of a mode that the user set. It needs no further report: a command's answer or the prompt's label shows it."""


@frozen(kw_only=True)
class ModeChanged(Event, stderr="never", scope="session", changes_status=True):
    mode: str
    reason: str
    returns_to: str = ""
    """For plan mode: the mode that an approved plan returns to; "" in files of earlier versions."""


@frozen(kw_only=True)
class PermissionDenied(Event, recorded="no", scope="parent"):
    tool_use_id: str
    name: str
    input: Json
    reason: str
    title: str = ""
    """One line for the user."""
    rules: list[str] = field(default_factory=list)
    """Allow rules that would have let it run, in a non-interactive run."""
    by: str = ""
    """Who denied it, for the user: `you`, `rule Bash(rm *) from settings.json`, `plan mode`, `a hook`."""


@frozen(kw_only=True)
class LoopSuspected(Event, stderr="terminal"):
    """The model repeats the same calls with the same results. With a `request_id`, a `PermissionRequested` asks whether
    to continue; without one (non-interactive, or the calls wait for something), the model is informed or the work
    ends."""

    name: str
    title: str
    times: int
    request_id: str = ""
    seconds: float = 0.0
    """How long the calls took."""


@frozen(kw_only=True)
class LoopContinued(Event, recorded="no", line=False, stream_json=False, before_request=True):
    """The loop continues; `transition` says why, with its `data`."""

    transition: str
    turn: int
    data: Json = field(default_factory=dict)


@frozen(kw_only=True)
class LoopEnded(Event, recorded="no", line=False, stream_json=False, scope="submission"):
    """Last event of `run_loop`."""

    terminal: str
    turns: int
    text: str = ""
    """User message if the terminal is not `completed`."""
    status: int | None = None
    stop_reason: str | None = None
    retryable: bool = False
    final: Any = None
    """The value with which a tool ended the submission (structured output)."""


@frozen(kw_only=True)
class Result(Event, recorded="state", line=False, scope="submission", changes_status=True):
    """Last event of every submission, exactly one."""

    subtype: str
    is_error: bool
    terminal: str
    text: str
    """The last answer; after an error as much as there is."""
    errors: list[str]
    turns: int
    duration_ms: int
    api_duration_ms: int
    usage: Usage
    """Usage of this submission."""
    total_cost_usd: float
    """Cost of the conversation in this process."""
    fully_priced: bool
    model_usage: Json
    """Usage of the conversation in this process, per model, in camelCase as scripts expect it."""
    permission_denials: list[Json]
    session_id: str
    uuid: str
    stop_reason: str | None = None
    api_error_status: int | None = None
    retryable: bool = False
    structured_output: Any = None
    waited_ms: int = 0
    """The part of `duration_ms` during which a question to the user was open."""
    background_tasks: list[Json] = field(default_factory=list)
    """Background commands that still ran when the answer was complete: `task_id`, `command`, `status`, `summary`."""


EVENT_TYPES: Mapping[str, type[Event]] = {
    name: value
    for name, value in list(globals().items())
    if isinstance(value, type) and issubclass(value, Event) and value is not Event
}
