"""Every event: what happened, as frozen plain data, in the past tense.

Events are all that a front end sees of the loop. They hold JSON-able values only: no futures, callbacks or live
objects. Each names the agent it belongs to ("" is the main one), so sub-agents need no wrapper. A field called
`message`, `block`, `usage` or `result` has the form of `core.messages`; all others are JSON as they stand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, fields
from typing import Any

from agentcli.core.frozen import frozen
from agentcli.core.messages import (
    Block,
    Json,
    Message,
    ToolResultBlock,
    block_from_dict,
    block_to_dict,
    message_from_dict,
    message_to_dict,
    usage_from_dict,
    usage_to_dict,
)
from agentcli.core.usage import Usage

USER_AGENT = "person"
"""The agent of events about a command that the user typed behind a `!`."""


@frozen(kw_only=True)
class Event:
    agent: str = ""


# ------------------------------------------------------------------------------------------- session, submission


@frozen(kw_only=True)
class SessionStarted(Event):
    """First event of every submission: what is in force."""

    session_id: str
    cwd: str
    model: str
    tools: list[str]
    permission_mode: str
    api_key_source: str = ""
    effort: str = ""
    sandbox: str = ""
    """What holds for commands: `bubblewrap, network on`, `off`, `not available`."""


@frozen(kw_only=True)
class MessageAppended(Event):
    """The log grew by this message. Persisted before anybody sees it."""

    message: Message


@frozen(kw_only=True)
class CommandEntered(Event):
    """The user entered a slash command or a shell line. Recorded to be shown again; front ends have shown it."""

    text: str


@frozen(kw_only=True)
class SubmissionInterrupted(Event):
    """The user stopped what runs. Recorded to be shown again; front ends have shown it."""

    steering: bool = False
    """A new prompt is the reason and takes its place."""


@frozen(kw_only=True)
class SessionResumed(Event):
    """Only in the history of a session: what follows is from another process, with totals of its own."""


@frozen(kw_only=True)
class NoticeRaised(Event):
    """A quiet line for the person: something worth knowing that needs no answer."""

    text: str
    level: str = "info"
    """info, warning or error."""
    code: str = ""


# ------------------------------------------------------------------------------------------------- model replies


@frozen(kw_only=True)
class RequestStarted(Event):
    model: str
    turn: int
    purpose: str = "turn"
    """turn, compact, summary: side calls are visible too."""
    estimated_tokens: int = 0


@frozen(kw_only=True)
class ReplyStarted(Event):
    """A reply begins; `message_id` is the id its message will have in the log, if it gets there."""

    message_id: str
    api_id: str
    model: str
    usage: Usage = Usage()
    """As far as it is known when the reply begins: the prompt's tokens, and hardly any of the reply's."""


@frozen(kw_only=True)
class BlockStarted(Event):
    message_id: str
    index: int
    kind: str
    name: str = ""
    """The tool's name, when kind is tool_use."""


@frozen(kw_only=True)
class TextStreamed(Event):
    message_id: str
    index: int
    text: str


@frozen(kw_only=True)
class ThinkingStreamed(Event):
    message_id: str
    index: int
    text: str


@frozen(kw_only=True)
class ToolInputStreamed(Event):
    message_id: str
    index: int
    text: str


@frozen(kw_only=True)
class BlockFinished(Event):
    """One block of a reply is complete. Persisted before anybody sees it."""

    message_id: str
    api_id: str
    model: str
    index: int
    block: Block
    duration_ms: int | None = None
    """From its start to its end; None when that was not measured."""


@frozen(kw_only=True)
class ReplyTombstoned(Event):
    """What came of this reply so far is void: remove it from the screen. A retry follows, or an error."""

    message_id: str
    reason: str


@frozen(kw_only=True)
class RawStreamed(Event):
    """One event of the API as it came; only when asked for."""

    data: Json


@frozen(kw_only=True)
class UsageReported(Event):
    """A response has ended, in whichever way, and this is what it said it used."""

    model: str
    usage: Usage
    cost_usd: float | None
    """None: the price of this model is not known."""
    purpose: str = "turn"
    duration_ms: int = 0


@frozen(kw_only=True)
class RetryScheduled(Event):
    attempt: int
    max_attempts: int
    wait_seconds: float
    kind: str
    text: str
    status: int | None = None


@frozen(kw_only=True)
class StreamWentQuiet(Event):
    """Nothing has come for a while; not yet an error."""

    seconds: float


@frozen(kw_only=True)
class ModelFellBack(Event):
    from_model: str
    to_model: str
    reason: str


@frozen(kw_only=True)
class FeatureDropped(Event):
    """The endpoint refused a parameter; from now on it is not sent there."""

    feature: str
    text: str


@frozen(kw_only=True)
class RequestRepaired(Event):
    """The API refused part of the history; from here on requests leave it out. `through` names the last message."""

    repair: str
    """strip_thinking or drop_images."""
    through: str
    text: str


# --------------------------------------------------------------------------------------------------------- tools


@frozen(kw_only=True)
class ToolStarted(Event):
    tool_use_id: str
    name: str
    input: Json
    title: str
    """One line for people, e.g. `Read src/app.py`."""


@frozen(kw_only=True)
class ToolProgressed(Event):
    """Not kept in the log."""

    tool_use_id: str
    text: str = ""
    data: Json = field(default_factory=dict)


@frozen(kw_only=True)
class ToolFinished(Event):
    """A tool has ended; may come in another order than the calls. Persisted before anybody sees it."""

    tool_use_id: str
    name: str
    result: ToolResultBlock
    summary: str = ""
    """One line for people: counts, size, exit code."""
    display: Json = field(default_factory=dict)
    structured: Any = None
    duration_ms: int = 0
    outcome: str = ""
    """done, denied, interrupted or failed."""
    accepted_hunks: list[int] = field(default_factory=list)
    """Of a change that the user accepted in part: how many hunks, and of how many."""


@frozen(kw_only=True)
class ToolResultAdded(Event):
    """The result of a call, in the order of the calls (SPEC T1)."""

    tool_use_id: str
    name: str
    result: ToolResultBlock
    structured: Any = None


@frozen(kw_only=True)
class TodosChanged(Event):
    """The task list as it is now, whole."""

    todos: list[Json]


@frozen(kw_only=True)
class BackgroundChanged(Event):
    """A background command has begun or ended."""

    task_id: str
    status: str
    """running, completed, failed or killed."""
    command: str
    summary: str = ""


@frozen(kw_only=True)
class DirectoryChanged(Event):
    """From now on calls run in this folder."""

    cwd: str


@frozen(kw_only=True)
class ToolBatchSummarised(Event):
    tool_use_ids: list[str]
    text: str


@frozen(kw_only=True)
class PermissionRequested(Event):
    """Answer with `Engine.answer(request_id, Answer(...))`."""

    request_id: str
    tool_use_id: str
    name: str
    input: Json
    title: str
    reason: str
    suggestions: list[str] = field(default_factory=list)
    """The allow rules, one per part of a compound command, that together would make this question go away; exactly
    what is saved when the answer says always."""
    rule_choices: list[Json] = field(default_factory=list)
    """What "always" can save instead, narrowest first: `{"rules": […], "covers": "…", "note": "…"}` (`RuleChoice`). The
    first has the rules of `suggestions`. Empty when no rule can cover the call."""
    display: Json = field(default_factory=dict)
    """What the call would do, for people, in the form of a tool's display: a diff, the parsed command, a plan."""
    details: list[str] = field(default_factory=list)
    """Why it is asked, part by part, where there is more to say than `reason`."""
    findings: list[Json] = field(default_factory=list)
    """The same as data: `{"part": "…", "clause": "…", "allowed": false}` (`PartFinding`)."""
    cause: str = ""
    """Why approval is needed; reads on after "because". Empty where `reason` is a statement of its own."""
    cause_listed: bool = False
    """Whether the cause is the clause of one of the findings."""
    self_evident: bool = False
    """Whether the reason says only that such a call needs approval."""


@frozen(kw_only=True)
class PermissionResolved(Event):
    request_id: str
    tool_use_id: str
    behavior: str
    """allow, deny, or withdrawn when the submission ended first."""


@frozen(kw_only=True)
class PermissionDecided(Event):
    """What the pipeline decided about a call, and by what: every call has one before it runs, asks or is refused."""

    tool_use_id: str
    name: str
    behavior: str
    reason: str
    rule: str = ""
    source: str = ""
    details: list[str] = field(default_factory=list)
    """Part by part, where there is more to say than `reason`."""


@frozen(kw_only=True)
class RulesLearned(Event):
    """Allow rules that came with an answer, and where they are kept (`session` or a file)."""

    rules: list[str]
    where: str


@frozen(kw_only=True)
class ModeChanged(Event):
    mode: str
    reason: str


@frozen(kw_only=True)
class PermissionDenied(Event):
    tool_use_id: str
    name: str
    input: Json
    reason: str
    title: str = ""
    """One line about the call."""
    rules: list[str] = field(default_factory=list)
    """Allow rules that together would have let it run, where nobody could be asked."""


# ----------------------------------------------------------------------------------------------------- the loop


@frozen(kw_only=True)
class PrefixBroken(Event):
    """Earlier content of the request changed, so the prompt cache after it is lost; says why. Comes after the response
    to the request in which it happened, because only that tells what it has cost."""

    reason: str
    block: str = ""
    """Which one changed, in words: `the tool Bash`, `the result of Read src/x.py in turn 3`."""
    rebilled_tokens: int = 0
    """That were in the cache, are sent again, and were not read from it."""


@frozen(kw_only=True)
class ContextEdited(Event):
    """Old content is shown otherwise from here on; the log keeps it. Recorded before anybody sees it."""

    edits: list[Json]
    """In the form of `context.edits.edit_to_dict`."""
    step: str
    """budget, snip, microcompact, collapse, compact or person."""
    freed_tokens: int = 0
    text: str = ""
    """What was done, for people: `cleared 12 old results`."""


@frozen(kw_only=True)
class ContextPinned(Event):
    """These, and no others, stay in the context whatever happens to the rest. Recorded before anybody sees it."""

    items: list[str]
    """By the names of `context.compact.pin_name`."""


@frozen(kw_only=True)
class CompactionStarted(Event):
    trigger: str
    """manual, auto or reactive."""


@frozen(kw_only=True)
class CompactionProposed(Event):
    """A summary to look at before it takes effect. Answer with `Engine.answer(request_id, Answer("allow"))`, with the
    summary in `updated_input["summary"]` if it was changed, or `Answer("deny")`: then everything stays as it was."""

    request_id: str
    summary: str
    tokens_before: int
    tokens_after: int
    cost_usd: float | None
    """What making the summary has cost; None: not known."""
    kept: list[str]
    """What stays word for word, a line each with its tokens, for people."""
    dropped: list[str]
    """What the summary stands for from then on. With `kept` it comes to `tokens_before`."""
    turn_usd_before: float | None = None
    """What sending the conversation costs with every request, read from the cache."""
    turn_usd_after: float | None = None
    added: list[str] = field(default_factory=list)
    """What is put into the context: the summary, files read again, the task list."""


@frozen(kw_only=True)
class ContextCompacted(Event):
    trigger: str
    tokens_before: int
    tokens_after: int


@frozen(kw_only=True)
class CompactionFailed(Event):
    trigger: str
    text: str
    cancelled: bool = False
    """Whether the user cancelled it."""


@frozen(kw_only=True)
class LoopSuspected(Event):
    """The model makes the same calls with the same results again and again. With a `request_id` the question whether to
    go on follows as a `PermissionRequested`; without one nobody is there, and the model is told or the work ends."""

    name: str
    title: str
    times: int
    request_id: str = ""


@frozen(kw_only=True)
class LoopContinued(Event):
    """The loop goes round again; `transition` is one of SPEC 2.7 and `data` is what belongs to it."""

    transition: str
    turn: int
    data: Json = field(default_factory=dict)


@frozen(kw_only=True)
class LoopEnded(Event):
    """Last event of `run_loop`."""

    terminal: str
    turns: int
    text: str = ""
    """What to tell the person, when the terminal is not `completed`."""
    status: int | None = None
    stop_reason: str | None = None
    retryable: bool = False
    final: Any = None
    """The value with which a tool completed the submission (structured output)."""


@frozen(kw_only=True)
class Result(Event):
    """Last event of every submission, exactly one."""

    subtype: str
    is_error: bool
    terminal: str
    text: str
    """The last answer; on an error what there was of it."""
    errors: list[str]
    turns: int
    duration_ms: int
    api_duration_ms: int
    usage: Usage
    """Of this submission."""
    total_cost_usd: float
    """Of the conversation in this process."""
    fully_priced: bool
    model_usage: Json
    """Of the conversation in this process, per model, camelCase as scripts expect it."""
    permission_denials: list[Json]
    session_id: str
    uuid: str
    stop_reason: str | None = None
    api_error_status: int | None = None
    retryable: bool = False
    structured_output: Any = None
    background_tasks: list[Json] = field(default_factory=list)
    """Background commands that still ran when the answer was complete: `task_id`, `command`, `status`, `summary`."""


EVENT_TYPES: Mapping[str, type[Event]] = {
    name: value
    for name, value in list(globals().items())
    if isinstance(value, type) and issubclass(value, Event) and value is not Event
}

_ENCODE: Mapping[str, Callable[[Any], Any]] = {
    "message": message_to_dict,
    "block": block_to_dict,
    "result": block_to_dict,
    "usage": usage_to_dict,
}
_DECODE: Mapping[str, Callable[[Any], Any]] = {
    "message": message_from_dict,
    "block": block_from_dict,
    "result": block_from_dict,
    "usage": usage_from_dict,
}


def event_to_dict(event: Event) -> Json:
    """The event as JSON-able data; `event` names its type."""
    data: Json = {"event": type(event).__name__}
    for spec in fields(event):
        value = getattr(event, spec.name)
        # A string is one already: a `block` may also be the name of one.
        encode = _ENCODE.get(spec.name) if not isinstance(value, str) else None
        data[spec.name] = encode(value) if encode else value
    return data


def event_from_dict(data: Mapping[str, Any]) -> Event:
    """The reverse of `event_to_dict`. Fields of a newer version are ignored; an unknown event is a ValueError."""
    kind = EVENT_TYPES.get(str(data.get("event")))
    if kind is None:
        raise ValueError(f"unknown event: {data.get('event')!r}")
    known = {spec.name for spec in fields(kind)}
    values = {name: value for name, value in data.items() if name in known}
    decoded = (name for name, value in values.items() if name in _DECODE and not isinstance(value, str))
    return kind(**{**values, **{name: _DECODE[name](values[name]) for name in decoded}})
