"""Values displayed in the transcript, and the operations that change them.

The presenter creates them from events; the transcript turns them into lines. No Textual and no Rich here. All text in
an item is already free of control sequences (line breaks and tabs are kept); blocks rely on this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from agentcli.core.frozen import frozen
from agentcli.core.messages import Json, ToolResultBlock
from agentcli.core.space_saving import CompressibleField, compressible_field
from agentcli.core.text.terminal_colours import ColourSpan


@frozen(kw_only=True)
class Item:
    id: str


WELCOME = "welcome"


@frozen(kw_only=True)
class WelcomeItem(Item):
    version: str
    lines: tuple[str, ...] = ()
    """Active settings and hints, one per line."""


@frozen(kw_only=True)
class PromptItem(Item):
    """A line that the user sent: a prompt, a slash command or a shell line, as typed (chips not expanded)."""

    text: str
    images: int = 0


@frozen(kw_only=True)
class AnswerItem(Item):
    """Markdown from the model. Grows with `Grow` until `done`; the final replacement usually has the same text."""

    text: str = ""
    done: bool = False
    joint: str | None = None
    """Line breaks between the previous answer and its continuation here; None for a new answer."""


@frozen(kw_only=True)
class ThinkingItem(Item):
    """Thinking text. Grows until `seconds` is set, then folds. A replacement with empty text keeps the current text."""

    text: str = ""
    seconds: float | None = None
    """Duration; None while thinking."""


ToolStatus = Literal["writing", "queued", "waiting", "running", "done", "failed", "denied", "interrupted"]
"""writing: the model still streams the input; queued: other calls run first; waiting: for the user's permission."""


@frozen(kw_only=True)
class ToolItem(Item):
    """A tool call. `output` grows with `Grow` while it runs; its end sets `display`, `summary` and `duration_ms`."""

    name: str
    title: str
    status: ToolStatus
    input: Json = field(default_factory=dict)
    output: str = ""
    """Live output so far; after the call, the text of the result if there is no better display."""
    line_breaks: int = 0
    """Line breaks in the live output, including the part that `output` omits."""
    summary: str = ""
    display: Json = field(default_factory=dict)
    """Same format as `tools.base.Output.display`."""
    result: ToolResultBlock | None = field(default=None, repr=False)
    """The result in the log. `display` mostly repeats its text and is packed as a difference from it."""
    denied_by: str = ""
    """Who denied the call (also part of the summary); "" if it was not denied or the session is non-interactive."""
    duration_ms: int = 0
    began: float = 0.0
    """Monotonic time at which it started to run, for the live duration."""
    background: bool = False
    has_changes: bool = False
    """Whether files may have changed while the command ran: they are compared after its end."""
    changed: str = ""
    """How many files changed; "" if none did, or before they are compared."""
    changes: str = ""
    """The diff of these files."""
    learned: str = ""
    """Permission rule that the user's answer added."""


Level = Literal["info", "warning", "error"]


@frozen(kw_only=True)
class NoticeItem(Item):
    text: str
    level: Level = "info"
    code: str = ""


@frozen(kw_only=True)
class OutputItem(Item):
    """Output of a slash command or shell line: plain text (`text`), Markdown (`markdown`) or a diff (`diff`)."""

    text: str
    kind: Literal["text", "markdown", "diff"] = "text"
    failed: bool = False
    title: str = ""


@frozen(kw_only=True)
class BoundaryItem(Item):
    text: str


@frozen(kw_only=True)
class EndItem(Item):
    text: str
    level: Level = "info"
    errors: tuple[str, ...] = ()


_TOOL_FIELDS = tuple(compressible_field(ToolItem, name) for name in ("input", "output", "display", "changes"))
_TEXT_FIELDS: Mapping[type[Item], CompressibleField] = {
    kind: compressible_field(kind, "text") for kind in (AnswerItem, ThinkingItem, OutputItem)
}


def pack_item(item: Item) -> None:
    """Compress the long texts of an item far from the visible part. Reading its fields still returns the text."""
    if isinstance(item, ToolItem):
        for packable in _TOOL_FIELDS:
            packable.compress(item, item.result)
    elif (text := _TEXT_FIELDS.get(type(item))) is not None:
        text.compress(item)


@frozen
class Add:
    item: Item


@frozen
class Grow:
    """Append text. Output of a call that begins with a carriage return replaces its last row."""

    id: str
    text: str
    colours: tuple[ColourSpan, ...] = ()
    """Colours of the text, without its carriage return."""


@frozen
class CountLines:
    """Set the number of line breaks in a call's output so far, including output that no `Grow` contained."""

    id: str
    line_breaks: int


@frozen
class Replace:
    """Replace the item with the same id. A tool item may become an agent item; otherwise the kind stays the same."""

    item: Item


@frozen
class Remove:
    id: str


@frozen
class Above:
    """Insert items above everything shown, in this order. None of them is shown yet."""

    items: tuple[Item, ...]


@frozen
class Clear:
    """Remove all items."""


Operation = Add | Grow | CountLines | Replace | Remove | Above | Clear


@frozen(kw_only=True)
class Activity:
    """Current activity for the line above the prompt. `phase` is "" when idle."""

    phase: Literal[
        "",
        "starting",
        "sending",
        "thinking",
        "writing",
        "tools",
        "agents",
        "waiting",
        "retrying",
        "compacting",
        "interrupting",
    ] = ""
    text: str = ""
    """Text to show, e.g. `Thinking`, `Bash: pytest -q`, `529 overloaded, attempt 3 of 10`."""
    began: float = 0.0
    step_began: float = 0.0
    """Monotonic time at which the shown call or compaction began; 0: the time since `began` is shown."""
    todo: str = ""
    """The entry of the task list that is in progress."""
    tokens_out: int = 0
    """Estimated output tokens of this submission so far."""
    until: float = 0.0
    """Monotonic time at which a wait ends; 0 without a countdown."""
    agents: int = 0
    """Number of running sub-agents, including background ones, which may run while everything else is idle."""
    can_stop: bool = True
    """Whether Esc stops it."""


@frozen(kw_only=True)
class Facts:
    """Data of the status line. None and "" mean: not known yet."""

    model: str = ""
    effort: str = ""
    fast: bool = False
    """Whether requests use fast mode."""
    mode: str = "default"
    context_tokens: int = 0
    context_window: int = 0
    compact_at: int = 0
    """Tokens at which the conversation is compacted automatically; 0: never."""
    cost_usd: float = 0.0
    fully_priced: bool = True
    next_cost_usd: float | None = None
    cache_cold: bool = False
    cached_share: float | None = None
    """Share of the input tokens so far that was read from the cache: 0 to 1."""
    branch: str = ""
    cwd: str = ""
    sandbox: str = ""
    is_sandboxed: bool = True
    session: str = ""
    tasks: int = 0
    agents: int = 0
    """Number of running sub-agents."""
    failed_servers: int = 0
    """Number of MCP servers that failed or need a sign-in."""
    todos_done: int = 0
    todos: int = 0
