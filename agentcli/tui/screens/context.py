"""The `/context` page: the model's context window as a map, by kind and item by item.

The map is a row of cells; each kind has a letter and a colour, so that it also works without colours. The last part of
the window is reserved: there the conversation is compacted automatically. Items can be pinned, dropped (after showing
the price) and restored; dropped items are at the end of the list.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from rich.style import Style

from agentcli.context.report import ContextItem
from agentcli.context.user_edits import ContextEffect
from agentcli.core.text.format import counted, percent, token_count
from agentcli.core.text.plaintext import plain_line
from agentcli.tui.blocks.rows import Runs, cut_runs
from agentcli.tui.screens.page import TextPage
from agentcli.tui.screens.picker import Action, ListSheet
from agentcli.tui.screens.row_list import Row
from agentcli.tui.screens.sheet import Keys
from agentcli.tui.screens.text import pad, wrap_rows

if TYPE_CHECKING:
    from agentcli.agent.context.control import ContextControl


_KINDS: Mapping[str, tuple[str, str, str]] = {
    "system": ("S", "system prompt", "function"),
    "tools": ("T", "tools", "type"),
    "memory": ("M", "memory", "builtin"),
    "summary": ("Y", "summary", "heading"),
    "attachments": ("H", "attachments", "attribute"),
    "skills": ("L", "skills", "operator"),
    "mcp": ("X", "MCP servers", "decorator"),
    "prompts": ("P", "prompts", "string"),
    "answers": ("A", "answers", "keyword"),
    "thinking": ("K", "thinking", "comment"),
    "calls": ("C", "tool calls", "tag"),
    "results": ("R", "tool results", "number"),
    "other": ("?", "other", "name"),
}
"""Letter, name, and the code style whose colour it has: these are easy to distinguish."""
PINNED_SIGN = "◆"
_ALWAYS = ("system", "tools", "memory")
"""Kinds that are part of every request."""
_FREE, _RESERVE = "free", "reserve"
_LEGEND_WIDTH = 33
_MIN_ROWS = 4
_MAX_NOTES = 6
_MAX_TEXT = 400_000


class ContextPage(ListSheet[str, None]):
    """`compact_at`: token count of auto-compaction; 0: never. Without a `control` the page is read-only. `notes`: lines
    below the kinds, as far as there is room."""

    letters = True
    share = 0.9
    close_word = "close"
    empty = "The context is empty: nothing has been sent yet."

    def __init__(
        self,
        items: Sequence[ContextItem],
        window: int,
        compact_at: int = 0,
        *,
        dropped: Sequence[ContextItem] = (),
        control: ContextControl | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        self._notes = list(notes)
        self._items = list(items)
        self._dropped = list(dropped)
        self._window = max(1, window)
        self._compact_at = compact_at if 0 < compact_at < window else 0
        self._by_size = True
        self._control = control
        self._asked: tuple[str, ContextEffect] | None = None
        """Item whose drop awaits confirmation, and the effect of the drop."""
        super().__init__("Context", self._rows())

    def _rows(self) -> list[Row[str]]:
        items = sorted(self._items, key=lambda item: -item.tokens) if self._by_size else self._items
        rows = [Row(item.id, item.label, self._detail(item), _mark(item)) for item in items]
        for item in self._dropped:
            left_out = f"dropped, {token_count(item.tokens)} tokens"
            rows.append(Row(item.id, item.label, "", _mark(item), "Dropped from the context", left_out))
        return rows

    def asides(self) -> Sequence[str]:
        return [f"{count} items" for count in super().asides()]

    def _detail(self, item: ContextItem) -> str:
        if item.category in _ALWAYS:
            age = "always"
        else:
            age = "this prompt" if item.age <= 0 else f"{counted(item.age, 'prompt')} ago"
        cached = {True: "cached", False: "not cached", None: ""}[item.cached]
        # Pinned items have a sign; a word would cost every row its last column on a screen of usual width.
        share = percent(item.tokens, self._window, decimals=1)
        return f"{token_count(item.tokens):>6}  {share:>5}  {age:>14}  {cached}".rstrip()

    def press(self, key: str, character: str | None) -> bool:
        if self._asked is not None and key == "escape":
            self._asked = None
            self.settle()
            return True
        return super().press(key, character)

    def actions(self) -> Sequence[Action]:
        sort: Action = ("s", "in order" if self._by_size else "by size", self._sort)
        item, control = self._item, self._control
        if item is None or control is None:
            return [sort]
        dropped, fixed = item in self._dropped, item.category in _ALWAYS
        pin = control.unpin if item.id in control.pins else control.pin
        words = {
            "p": "" if dropped or fixed else "unpin" if item.pinned else "pin",
            "d": "" if dropped or fixed else "drop",
            "u": "restore" if dropped else "",
        }
        return [
            sort,
            ("p", words["p"], lambda: self._reload(pin(item.id) or "")),
            ("d", words["d"], lambda: self._ask(control, item.id)),
            ("u", words["u"], lambda: self._reload(control.restore(item.id), "Restored")),
        ]

    def _sort(self) -> None:
        self._by_size = not self._by_size
        self.set_rows(self._rows())
        self.listing.move_to(0)

    def enter_word(self) -> str:
        return "show" if self._control is not None and self._item is not None else ""

    def keys(self) -> Keys:
        return super().keys() if self._asked is None else [("Esc", "keep it"), ("Enter", "drop it")]

    @property
    def _item(self) -> ContextItem | None:
        row = self.row
        return next((one for one in (*self._items, *self._dropped) if row is not None and one.id == row.value), None)

    def enter(self) -> None:
        if self._asked is not None and self._control is not None:
            item, _price = self._asked
            self._asked = None
            self._reload(self._control.drop(item), "Dropped")
        elif self._control is not None and (shown := self._item) is not None:
            text = self._control.item_text(shown.id)
            note = f"\n… {counted(len(text) - _MAX_TEXT, 'more character')}" if len(text) > _MAX_TEXT else ""
            self.open(TextPage(shown.label, [text[:_MAX_TEXT] + note]))

    def _ask(self, control: ContextControl, item: str) -> None:
        price = control.price_of_drop(item)
        if isinstance(price, str):
            self.say(price)
        else:
            self._asked = (item, price)
            self.settle()

    def follow_cursor(self, row: Row[str] | None) -> None:
        if self._asked is not None and (row is None or row.value != self._asked[0]):
            self._asked = None

    @property
    def asks(self) -> bool:
        return self._asked is not None

    def about(self, row: Row[str] | None, width: int) -> list[Runs]:
        if self._asked is None:
            return []
        price = self._asked[1]
        also = f" {price.also}" if price.also else ""
        return wrap_rows([(f"Drop it{also}? That {price.text}.", self.palette.warning)], width, 3)

    def _reload(self, done: ContextEffect | str, what: str = "") -> None:
        """Reload the items, in a thread because counting takes long, and show what was done or why it was not."""
        good = not isinstance(done, str)
        said = done if isinstance(done, str) else f"{what}: {done.text}."

        async def reload() -> None:
            assert self._control is not None
            items = await asyncio.to_thread(self._control.items)
            dropped = await asyncio.to_thread(self._control.dropped_items)
            if self.is_open:
                self._items, self._dropped = items, dropped
                self.set_rows(self._rows())
                self.say(said, good=good)

        self.work(reload, "reload")

    def head(self, width: int, room: int) -> list[Runs]:
        sums, across, most = self._sums(), min(width, 100), room - _MIN_ROWS
        rows = [cut_runs(self._summary(), width), self._map(sums, across)]
        if self.asks and room < 12:
            return rows  # The space is for the question and its price.
        rows += self._legend(sums, across, max(0, most - len(rows)))
        fitting = self._notes[: max(0, min(_MAX_NOTES, most - len(rows) - 1))]
        rows += [cut_runs([(plain_line(note), self.palette.muted)], width) for note in fitting]
        return [*rows, *([[]] if len(rows) < most - 1 else [])]

    def _sums(self) -> dict[str, int]:
        sums = dict.fromkeys(_KINDS, 0)
        for item in self._items:
            sums[_kind(item)] += max(0, item.tokens)
        used = sum(sums.values())
        limit = self._compact_at or self._window
        sums[_FREE] = max(0, limit - used)
        sums[_RESERVE] = max(0, self._window - max(limit, used))
        return {name: count for name, count in sums.items() if count}

    def _summary(self) -> Runs:
        palette = self.palette
        used = sum(max(0, item.tokens) for item in self._items)
        style = palette.warning if self._compact_at and used >= self._compact_at else palette.text
        said: Runs = [
            ("Next request: ", palette.muted),
            (token_count(used), style + Style(bold=True)),
            (f" of {token_count(self._window)} tokens, {percent(used, self._window)}", style),
        ]
        if used > self._window:
            said.append((" · ! exceeds the context window", palette.error))
        elif self._compact_at:
            share = percent(self._compact_at, self._window)
            said.append((f" · auto-compacts at {token_count(self._compact_at)}, {share}", palette.muted))
        return said

    def _map(self, sums: Mapping[str, int], across: int) -> Runs:
        row: Runs = []
        for name, count in zip(sums, share_out(list(sums.values()), across), strict=True):
            sign, style = self._sign(name)
            fills = name in (_FREE, _RESERVE) or not self.palette.colours
            row.append((sign * count if fills else sign.ljust(count)[:count], style))
        return row

    def _sign(self, name: str) -> tuple[str, Style]:
        """With colours, only the first cell of a kind shows its letter."""
        palette = self.palette
        if name == _FREE:
            return "·", palette.faint
        if name == _RESERVE:
            return "░", palette.muted
        letter, _name, hue = _KINDS[name]
        if not palette.colours:
            return letter, palette.text
        return letter, Style(color=palette.syntax.get(hue, palette.text).color, reverse=True)

    def _legend(self, sums: Mapping[str, int], width: int, rows: int) -> list[Runs]:
        """The legend in columns; only the largest kinds if space is short."""
        columns = max(1, width // _LEGEND_WIDTH)
        shown = list(sums)
        if len(shown) > columns * rows:
            largest = sorted(shown, key=lambda name: -sums[name])[: columns * rows]
            shown = [name for name in shown if name in largest]
        entries = [self._entry(name, sums[name]) for name in shown]
        high = -(-len(entries) // columns)
        return [[run for entry in entries[number::high] for run in entry] for number in range(high)]

    def _entry(self, name: str, count: int) -> Runs:
        palette = self.palette
        label = {_FREE: "free", _RESERVE: "kept free"}.get(name) or _KINDS[name][1]
        tokens = f" {pad(label, 14)}{token_count(count):>7}"
        return [self._sign(name), (tokens, palette.text), (f"{percent(count, self._window):>5}     ", palette.muted)]


def _mark(item: ContextItem) -> str:
    letter = _KINDS[_kind(item)][0]
    return f"{letter}{PINNED_SIGN}" if item.pinned else letter


def _kind(item: ContextItem) -> str:
    return item.category if item.category in _KINDS else "other"


def share_out(amounts: Sequence[int], cells: int) -> list[int]:
    """Distribute all cells: one for each amount, if there are enough, and the rest by share."""
    if cells < len(amounts):
        return [1] * cells + [0] * (len(amounts) - cells)
    total, rest = max(1, sum(amounts)), cells - len(amounts)
    ends = [round(rest * amount / total) for amount in accumulate(amounts)]
    return [1 + end - start for start, end in pairwise([0, *ends])]
