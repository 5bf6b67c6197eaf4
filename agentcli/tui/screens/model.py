"""Pickers for the model and its effort, with context window, price, and the cost of changing now."""

from __future__ import annotations

from collections.abc import Callable

from agentcli.agent.context.report import ChangePrice
from agentcli.core.text.format import money, token_count
from agentcli.providers.catalog import ALIASES, EFFORTS, PRICES_TAKEN, Catalog, ModelInfo
from agentcli.tui.screens.picker import Picker
from agentcli.tui.screens.row_list import Row
from agentcli.tui.screens.text import Runs, safe, wrapped

IN_FORCE = "●"
NOTHING_CACHED = "Nothing is cached, so a change costs nothing."
NO_CHANGE = ChangePrice(0, 0.0)
_MEANS = {
    "low": "short answers, quick and cheap",
    "medium": "a balance, for everyday work",
    "high": "thorough, for most hard work",
    "xhigh": "more thinking and more tool calls, for long tasks",
    "max": "maximum effort, regardless of cost",
}


class ModelPicker(Picker[str]):
    """Returns the id of a model; also one that is not in the list, as it was typed. `context_tokens` are those of the
    conversation, `price_of_change` gives the cost of continuing with another model."""

    placeholder = "type to search, or any model's name"

    def __init__(
        self,
        catalog: Catalog,
        current: str,
        context_tokens: int = 0,
        price_of_change: Callable[[str], ChangePrice] = lambda _model: NO_CHANGE,
    ) -> None:
        self._catalog = catalog
        self._current = catalog.resolve(current)
        self._context_tokens = context_tokens
        self._price_of_change = price_of_change
        known = catalog.known_ids()
        ids = known if self._current in known else (self._current, *known)
        rows = [self._row(catalog.get(id)) for id in ids]
        super().__init__("Model", rows, start=self._current)

    def _row(self, info: ModelInfo) -> Row[str]:
        mark = IN_FORCE if info.id == self._current else ""
        group = "Price known" if info.price else "Price unknown"
        return Row(info.id, info.id, _detail(info), mark, group)

    def about(self, row: Row[str] | None, width: int) -> list[Runs]:
        if row is None:
            return []
        palette = self.palette
        info = self._catalog.get(row.value)
        price = f"Prices per million tokens, as of {PRICES_TAKEN}." if info.price else ""
        if row.value == self._current:
            return wrapped([(f"Active now. {price}", palette.muted)], width, 2)
        if self._context_tokens > info.context_window:
            text = (
                f"! Its context window is {token_count(info.context_window)} tokens and the conversation has "
                f"{token_count(self._context_tokens)}: compact it first."
            )
            return wrapped([(text, palette.warning)], width, 2)
        change = said_of_change(self._price_of_change(row.value))
        return wrapped([(f"{change} {price}", palette.muted)], width, 2)

    def unlisted(self, query: str) -> Row[str] | None:
        name = self._catalog.resolve(query)
        if len(query.split()) != 1 or name in self._catalog.known_ids() or len(query) < 3:
            return None
        info = self._catalog.get(name)
        about = "as typed; " + (
            "another name of a known model" if info.known else "its context window and price are unknown"
        )
        return Row(name, f"use {name}", about)


class EffortPicker(Picker[str]):
    """Returns a level, or "auto" for the model's default. `price_of_change(level)`: what a change would bill again."""

    def __init__(
        self,
        info: ModelInfo,
        current: str = "auto",
        price_of_change: Callable[[str], ChangePrice] = lambda _level: NO_CHANGE,
    ) -> None:
        self._current = current or "auto"
        self._price_of_change = price_of_change
        super().__init__(f"Effort of {safe(info.id, 60)}", self._rows(info), start=self._current)

    def _rows(self, info: ModelInfo) -> list[Row[str]]:
        default = f"the model's own default: {info.default_effort}" if info.default_effort else "nothing is sent"
        marks = {self._current: IN_FORCE}
        rows = [Row("auto", "auto", default, marks.get("auto", ""))]
        for level in EFFORTS:
            takes = f"supports only {', '.join(info.efforts)}" if info.efforts else "does not support effort levels"
            why = "" if level in info.efforts else f"{safe(info.id, 60)} {takes}"
            rows.append(Row(level, level, _MEANS[level], marks.get(level, ""), disabled=why))
        return rows

    def about(self, row: Row[str] | None, width: int) -> list[Runs]:
        if row is None:
            return []
        if row.value == self._current:
            return wrapped([("Active now.", self.palette.muted)], width, 2)
        return wrapped([(said_of_change(self._price_of_change(row.value)), self.palette.muted)], width, 2)


def said_of_change(price: ChangePrice) -> str:
    if not price.text:
        return NOTHING_CACHED
    said = f"a change invalidates the prompt cache and {price.text}." if price.tokens else f"{price.text}."
    return said[0].upper() + said[1:]


def _detail(info: ModelInfo) -> str:
    window = f"{token_count(info.context_window):>4}"
    price = f"{money(info.price.input)} in / {money(info.price.output)} out" if info.price else ""
    if not info.efforts:
        efforts = "no effort levels" if info.known else "not in the list"
    else:
        efforts = f"effort {info.efforts[0]}–{info.efforts[-1]}"
    names = [alias for alias, id in ALIASES.items() if id == info.id and alias != "default"]
    return f"{window}  {price:<22}  {efforts:<16}  {', '.join(names)}".rstrip()
