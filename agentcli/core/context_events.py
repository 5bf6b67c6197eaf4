"""Events about the context: its edits and pins, compaction, a broken prompt cache. Import them from `core.events`, as
all others."""

from __future__ import annotations

from dataclasses import field

from agentcli.core.event_base import Event
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json


@frozen(kw_only=True)
class PrefixBroken(Event, before_request=True):
    """Earlier content of the request changed, so the prompt cache after it is lost. Sent after the response to that
    request, because only then is the cost known."""

    reason: str
    block: str = ""
    """The changed block: `the tool Bash`, `the result of Read src/x.py in turn 3`."""
    rebilled_tokens: int = 0
    """Tokens that were in the cache and had to be sent again."""


@frozen(kw_only=True)
class ContextEdited(Event, recorded="state", before_request=True):
    """Old content is shortened or hidden for the model from here on; the log keeps it. Stored before it is shown."""

    edits: list[Json]
    """In the form of `context.edits.edit_to_dict`."""
    step: str
    """Name of the context step, also of a plugin; `user` or `compact` for the edits that they make."""
    freed_tokens: int = 0
    text: str = ""
    """Description for the user: `cleared 12 old results`."""

    @property
    def is_by_step(self) -> bool:
        """Whether a context step made the edits, before a request: neither the user nor `/compact undo`."""
        return self.step not in ("user", "compact")


@frozen(kw_only=True)
class ContextPinned(Event, recorded="state", line=False, stream_json=False):
    """The complete list of items that stay in the context. Stored before it is shown."""

    items: list[str]
    """Names from `context.compact.pin_name`."""


@frozen(kw_only=True)
class CompactionStarted(Event, stderr="never"):
    trigger: str
    """manual, auto or reactive."""


@frozen(kw_only=True)
class CompactionProposed(Event, recorded="no", line=False, stream_json=False):
    """A summary to review before it takes effect.

    Answer with `Engine.answer(request_id, Answer("allow"))`, with the summary in `updated_input["summary"]` if it was
    edited, or `Answer("deny")` to keep the conversation unchanged.
    """

    request_id: str
    summary: str
    tokens_before: int
    tokens_after: int
    cost_usd: float | None
    """Cost of creating the summary; None: unknown."""
    kept: list[str]
    """Content that stays unchanged, one line each with its tokens."""
    dropped: list[str]
    """Content that the summary replaces. Together with `kept` it adds up to `tokens_before`."""
    turn_usd_before: float | None = None
    """Cost of sending the conversation with each request, read from the cache."""
    turn_usd_after: float | None = None
    added: list[str] = field(default_factory=list)
    """Content added to the context: the summary, files read again, the task list."""


@frozen(kw_only=True)
class ContextCompacted(Event, recorded="no", changes_status=True):
    trigger: str
    tokens_before: int
    tokens_after: int


@frozen(kw_only=True)
class CompactionFailed(Event):
    trigger: str
    text: str
    cancelled: bool = False
    """Whether the user cancelled it."""
    interrupted: bool = False
    """Whether the submission was stopped, which is reported separately."""
