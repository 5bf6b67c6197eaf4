"""What the transcript shows, as values, and the operations that change it.

The presenter makes these out of events; the transcript turns them into lines. No Textual and no Rich here. All text in
an item is already free of control sequences (line breaks and tabs stay); blocks may rely on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from agentcli.core.frozen import frozen
from agentcli.core.messages import Json, ToolResultBlock
from agentcli.core.packed import PackableField, packable_field


@frozen(kw_only=True)
class Item:
    id: str
    parent: str = ""
    """The tool item under which this one is shown, for items of a sub-agent; "" for any other."""


WELCOME = "welcome"


@frozen(kw_only=True)
class WelcomeItem(Item):
    version: str
    lines: tuple[str, ...] = ()
    """Active settings and hints, one fact a line."""


@frozen(kw_only=True)
class PromptItem(Item):
    """A line that the user sent: a prompt, a slash command or a shell line, as typed (chips not expanded)."""

    text: str
    images: int = 0


@frozen(kw_only=True)
class AnswerItem(Item):
    """Markdown of the model. Grows with `Grow` until `done`; the replacement at the end usually has the same text."""

    text: str = ""
    done: bool = False
    joint: str | None = None
    """The line ends between the answer before this one and its continuation here; None for an answer of its own."""


@frozen(kw_only=True)
class ThinkingItem(Item):
    """Grows until `seconds` is known; then it folds. A replacement with the text "" keeps the text that grew."""

    text: str = ""
    seconds: float | None = None
    """None while it goes on."""


ToolStatus = Literal["writing", "queued", "waiting", "running", "done", "failed", "denied", "interrupted"]
"""writing: the model still streams the input; queued: other calls run first; waiting: for the user's permission."""


@frozen(kw_only=True)
class ToolItem(Item):
    """One call. `output` grows with `Grow` while it runs; at its end `display`, `summary` and `duration_ms` come."""

    name: str
    title: str
    status: ToolStatus
    input: Json = field(default_factory=dict)
    output: str = ""
    """Live output so far; at the end the text of the result where there is no better display."""
    line_breaks: int = 0
    """Of the live output, also of what `output` leaves out."""
    summary: str = ""
    display: Json = field(default_factory=dict)
    """In the form of `tools.base.Output.display`."""
    result: ToolResultBlock | None = field(default=None, repr=False)
    """The result in the log, whose text the display mostly repeats."""
    denied_by: str = ""
    """Who denied the call, which the summary says too; "" if nobody did or nobody was there to ask."""
    duration_ms: int = 0
    began: float = 0.0
    """Monotonic time when it began to run, for the live duration."""
    background: bool = False
    learned: str = ""
    """What the answer to its question allowed from then on."""


Level = Literal["info", "warning", "error"]


@frozen(kw_only=True)
class NoticeItem(Item):
    text: str
    level: Level = "info"
    code: str = ""


@frozen(kw_only=True)
class OutputItem(Item):
    """What a slash command or a shell line answered: plain text (`text`), Markdown (`markdown`) or a diff (`diff`)."""

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


_TOOL_FIELDS = tuple(packable_field(ToolItem, name) for name in ("input", "output", "display"))
_TEXT_FIELDS: Mapping[type[Item], PackableField] = {
    kind: packable_field(kind, "text") for kind in (AnswerItem, ThinkingItem, OutputItem)
}


def pack_item(item: Item) -> None:
    """Keep the long texts of an item compressed, which is far from what is looked at. It reads as before."""
    if isinstance(item, ToolItem):
        for packable in _TOOL_FIELDS:
            packable.pack(item, item.result)
    elif (text := _TEXT_FIELDS.get(type(item))) is not None:
        text.pack(item)


@frozen
class Add:
    item: Item


@frozen
class Grow:
    """Text that follows; that of a call replaces its last row if it begins with a carriage return."""

    id: str
    text: str


@frozen
class CountLines:
    """Line breaks in the output of a call so far, also of what never came with `Grow`."""

    id: str
    line_breaks: int


@frozen
class Replace:
    """The item as it is now; same id. A call can become the agent that it has started, otherwise the kind stays."""

    item: Item


@frozen
class Remove:
    id: str


@frozen
class Above:
    """What was before all that is shown, in this order. None of it is shown already."""

    items: tuple[Item, ...]
    is_earlier: bool = False
    """Whether it is also before the items of the last such operation, which may not all be shown yet."""


@frozen
class Clear:
    """Everything goes."""


Operation = Add | Grow | CountLines | Replace | Remove | Above | Clear


@frozen(kw_only=True)
class Activity:
    """What goes on right now, for the line above the prompt. `phase` is "" when nothing does."""

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
    """What to say, e.g. `Thinking`, `Bash: pytest -q`, `529 overloaded, attempt 3 of 10`."""
    began: float = 0.0
    tool_began: float = 0.0
    tokens_out: int = 0
    """Estimated tokens that came so far in this submission."""
    until: float = 0.0
    """Monotonic time at which a wait ends; 0 when nothing counts down."""
    agents: int = 0
    """Sub-agents that run, also in the background, where they go on while nothing else does."""


@frozen(kw_only=True)
class Facts:
    """What the status line shows. None and "" mean: not known yet."""

    model: str = ""
    effort: str = ""
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
    """Of the input tokens so far, the share that was read from the cache: 0 to 1."""
    branch: str = ""
    cwd: str = ""
    sandbox: str = ""
    is_sandboxed: bool = True
    session: str = ""
    tasks: int = 0
    agents: int = 0
    """Sub-agents that run."""
    failed_servers: int = 0
    """MCP servers that failed or need a sign-in."""
    todos_done: int = 0
    todos: int = 0
