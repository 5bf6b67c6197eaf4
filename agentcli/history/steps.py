"""Contents of the scrubber: the screen over the steps of a session that rewinding, branches, replays and traces share.

A step is a row at the left: a prompt, or a call folded below it. Tabs show what belongs to the step at the right, and
actions are keys that do something with it. All of it is plain data and functions; the front end paints it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal

from agentcli.core.frozen import frozen


@frozen
class Step:
    """A row. Its texts may come from a model or a file: the screen makes them safe."""

    id: str
    """Unique among the steps."""
    label: str
    detail: str = ""
    prefix: str = ""
    """Text before the label, such as the lines of a tree."""
    mark: str = ""
    """A sign of one or two cells in a column of its own."""
    parent: str = ""
    """Id of the step below which it is folded; "" if it is always visible."""
    value: Any = None
    """What tabs and actions need to know of it."""


@frozen
class StepText:
    """A piece of a tab, as wide as the tab."""

    text: str | Callable[[int], str]
    """A function gets the width of the tab in columns."""
    kind: Literal["text", "muted", "heading", "markdown", "diff"] = "text"
    """diff: a unified diff."""


Read = Callable[[Step], "Sequence[StepText] | Awaitable[Sequence[StepText]]"]


@frozen
class StepTab:
    name: str
    read: Read
    """Called in a thread, so it may block. A coroutine function runs in the event loop and must not."""


UpdateSteps = Callable[[Sequence[Step]], None]
"""Replaces the steps of the open screen. The cursor, the folds, the search and the position in the text stay."""


def _always(_step: Step) -> bool:
    return True


@frozen
class StepAction:
    """`key`: a character, or the name of a key such as "enter", which otherwise opens the tab."""

    key: str
    word: str
    """What it does, for the row of keys."""
    run: Callable[[Step], Awaitable[str]] | None = None
    """Runs while the screen is open; its result is shown as a success, an `AgentError` as a failure. None: the screen
    closes and returns a `StepChoice`."""
    applies: Callable[[Step], bool] = _always


@frozen
class StepChoice:
    """The action that closed the screen, and the step it is for."""

    key: str
    step: Step


@frozen
class StepList:
    """Everything that the screen shows. Open it with `FrontEnd.page("steps", step_list)`, which returns a `StepChoice`,
    or None if the user closed it."""

    title: str
    load: Callable[[], Sequence[Step]]
    """Called in a thread."""
    tabs: Sequence[StepTab]
    actions: Sequence[StepAction] = ()
    start: str = ""
    """Id of the step with the cursor; "": the last one."""
    tab: int = 0
    """Place of the tab that is shown first."""
    empty: str = "There are no prompts yet."
    noun: str = "prompt"
    """What a step is that is not folded below another one, for their number."""
    opened: Callable[[UpdateSteps], None] | None = None
    """Called when the first steps are shown, e.g. to follow a running prompt."""
