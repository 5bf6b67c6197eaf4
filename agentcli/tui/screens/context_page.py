"""`/context`: what fills the model's window, as a map, by kind and item by item.

The map is a row of cells; each kind has a letter and a colour, so that it reads without colours too. The last part of
the window is kept free: from there on the conversation is compacted by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.style import Style

from agentcli.agent.outlook import ContextItem
from agentcli.core.frozen import frozen
from agentcli.tui.palette import Palette
from agentcli.tui.screens.picker import ListSheet
from agentcli.tui.screens.rows import Row
from agentcli.tui.screens.runs import Runs, cut_runs, padded, percent, tokens, width_of


@frozen
class _Kind:
    letter: str
    name: str
    hue: str
    """Of the palette's styles for code: they are made to be told apart."""


_KINDS: Mapping[str, _Kind] = {
    "system": _Kind("S", "system prompt", "function"),
    "tools": _Kind("T", "tools", "type"),
    "memory": _Kind("M", "memory", "builtin"),
    "summary": _Kind("Y", "summary", "heading"),
    "attachments": _Kind("H", "attachments", "attribute"),
    "prompts": _Kind("P", "prompts", "string"),
    "answers": _Kind("A", "answers", "keyword"),
    "thinking": _Kind("K", "thinking", "comment"),
    "calls": _Kind("C", "tool calls", "tag"),
    "results": _Kind("R", "tool results", "number"),
    "other": _Kind("?", "other", "name"),
}
_ALWAYS = ("system", "tools", "memory")
"""Is in every request, from the beginning on."""
_FREE, _RESERVE = "free", "reserve"
_LEGEND_WIDTH = 33
_LEAST_ROWS = 4
"""Of the list, however much there is to say above it."""


class ContextPage(ListSheet[ContextItem, None]):
    """`compact_at`: tokens from which on the conversation is compacted; 0 when it is not."""

    letters = True
    share = 0.9
    empty = "The context is empty: nothing has been sent yet."

    def __init__(
        self, items: Sequence[ContextItem], window: int, compact_at: int = 0, palette: Palette | None = None
    ) -> None:
        self._items = list(items)
        self._window = max(1, window)
        self._compact_at = compact_at if 0 < compact_at < window else 0
        self._by_size = True
        super().__init__("Context", self._rows(), palette)

    # ------------------------------------------------------------------------------------------------------------ list

    def _rows(self) -> list[Row[ContextItem]]:
        items = sorted(self._items, key=lambda item: -item.tokens) if self._by_size else self._items
        return [Row(item, item.label, self._detail(item), _KINDS[_kind(item)].letter) for item in items]

    def _detail(self, item: ContextItem) -> str:
        if item.category in _ALWAYS:
            age = "always"
        else:
            age = "this turn" if item.age <= 0 else "1 turn ago" if item.age == 1 else f"{item.age:,} turns ago"
        cached = {True: "cached", False: "not cached", None: ""}[item.cached]
        return f"{tokens(item.tokens):>6}  {percent(item.tokens, self._window):>5}  {age:>12}  {cached}".rstrip()

    def choose(self, row: Row[ContextItem]) -> None:
        """Nothing can be done with an item yet."""

    def letter(self, key: str) -> bool:
        if key != "s":
            return False
        self._by_size = not self._by_size
        self.set_rows(self._rows())
        self.listing.move_to(0)
        return True

    def keys(self) -> list[tuple[str, str]]:
        if self.searching:
            return [("↑↓", "move"), ("Esc", "end search")]
        return [("↑↓", "move"), ("/", "search"), ("s", "in order" if self._by_size else "by size"), ("Esc", "close")]

    # ------------------------------------------------------------------------------------------------------------- map

    def head(self, width: int, room: int) -> list[Runs]:
        sums = self._sums()
        most = room - _LEAST_ROWS
        rows = [cut_runs(self._summary(), width)]
        across = min(width, 100)
        high = 1 if room < 12 else 2
        rows += self._map(sums, across, high)
        legend = self._legend(sums, across, max(0, most - len(rows)))
        return [*rows, *legend, *([[]] if len(rows) + len(legend) < most - 1 else [])]

    def _sums(self) -> dict[str, int]:
        """Tokens by kind, with what is free and what is kept free."""
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
            (tokens(used), style + Style(bold=True)),
            (f" of {tokens(self._window)} tokens, {percent(used, self._window)}", style),
        ]
        if used > self._window:
            said.append((" · ! more than the window holds", palette.error))
        elif self._compact_at:
            share = percent(self._compact_at, self._window)
            said.append((f" · compacts by itself at {tokens(self._compact_at)}, {share}", palette.muted))
        return said

    def _map(self, sums: Mapping[str, int], across: int, high: int) -> list[Runs]:
        counts = shared_out(list(sums.values()), across * high)
        names = [name for name, count in zip(sums, counts, strict=True) for _cell in range(count)]
        rows: list[Runs] = []
        for start in range(0, across * high, across):
            row: Runs = []
            for place, name in enumerate(names[start : start + across]):
                first = place == 0 or names[start + place - 1] != name
                row.append(self._cell(name, first))
            rows.append(row)
        return rows

    def _cell(self, name: str, first: bool) -> tuple[str, Style]:
        """With colours only the first cell of a kind has its letter: the map is calmer then."""
        palette = self.palette
        if name == _FREE:
            return "·", palette.faint
        if name == _RESERVE:
            return "░", palette.muted
        kind = _KINDS[name]
        if not palette.colours:
            return kind.letter, palette.text
        return (kind.letter if first else " "), self._hue(kind) + Style(reverse=True)

    def _hue(self, kind: _Kind) -> Style:
        style = self.palette.syntax.get(kind.hue, self.palette.text)
        return Style(color=style.color) if style.color is not None else self.palette.text

    def _legend(self, sums: Mapping[str, int], width: int, rows: int) -> list[Runs]:
        """In columns; where there is no room for all the largest are told."""
        columns = max(1, width // _LEGEND_WIDTH)
        shown = list(sums)
        if len(shown) > columns * rows:
            largest = sorted(shown, key=lambda name: -sums[name])[: columns * rows]
            shown = [name for name in shown if name in largest]
        entries = [self._entry(name, sums[name]) for name in shown]
        high = -(-len(entries) // columns)
        legend: list[Runs] = []
        for number in range(high):
            row: Runs = []
            for entry in entries[number::high]:
                row += [*entry, (" " * max(0, _LEGEND_WIDTH - width_of(entry)), Style.null())]
            legend.append(row)
        return legend

    def _entry(self, name: str, count: int) -> Runs:
        palette = self.palette
        sign, style = self._cell(name, first=True)
        label = {_FREE: "free", _RESERVE: "kept free"}.get(name) or _KINDS[name].name
        return [
            (sign, style),
            (" " + padded(label, 14), palette.text),
            (f"{tokens(count):>7}", palette.text),
            (f"{percent(count, self._window):>6}", palette.muted),
        ]


def _kind(item: ContextItem) -> str:
    return item.category if item.category in _KINDS else "other"


def shared_out(amounts: Sequence[int], cells: int) -> list[int]:
    """Cells by share, all of them given away; whatever there is some of gets at least one, as far as they reach."""
    total = sum(amounts)
    if not total or cells < len(amounts):
        given = max(0, min(cells, len(amounts)))
        return [1] * given + [0] * (len(amounts) - given)
    exact = [amount * cells / total for amount in amounts]
    counts = [max(1, int(share)) for share in exact]
    while sum(counts) > cells:
        largest = max(range(len(counts)), key=lambda place: counts[place] - exact[place] + (counts[place] > 1) * cells)
        counts[largest] -= 1
    while sum(counts) < cells:
        neediest = max(range(len(counts)), key=lambda place: exact[place] - counts[place])
        counts[neediest] += 1
    return counts
