"""Choosing the model: what each can hold, what it costs, and what a change costs right now."""

from __future__ import annotations

from agentcli.core.usage import Price, Usage
from agentcli.providers.catalog import ALIASES, PRICES_TAKEN, Catalog, ModelInfo
from agentcli.tui.screens.picker import Picker
from agentcli.tui.screens.rows import Row
from agentcli.tui.screens.runs import Runs, roughly, tokens, wrapped
from agentcli.tui.theme.palette import Palette

IN_FORCE = "●"
NOTHING_CACHED = "Nothing is cached, so a change costs nothing."


class ModelPicker(Picker[str]):
    """Returns the id of a model; also one that is not in the list, as it was typed. `context_tokens` are those of the
    conversation, `cached` whether something of it is in the prompt cache."""

    placeholder = "type to search, or any model's name"

    def __init__(
        self,
        catalog: Catalog,
        current: str,
        context_tokens: int = 0,
        palette: Palette | None = None,
        cached: bool = True,
    ) -> None:
        self._catalog = catalog
        self._current = catalog.resolve(current)
        self._context_tokens = context_tokens
        self._sent_anew = context_tokens if cached else 0
        known = catalog.known_ids()
        ids = known if self._current in known else (self._current, *known)
        rows = [self._row(catalog.get(id)) for id in ids]
        super().__init__("Model", rows, palette, start=self._current)

    def _row(self, info: ModelInfo) -> Row[str]:
        mark = IN_FORCE if info.id == self._current else ""
        group = "Price known" if info.price else "Price not known"
        return Row(info.id, info.id, _detail(info), mark, group)

    def about(self, row: Row[str] | None, width: int) -> list[Runs]:
        if row is None:
            return []
        palette = self.palette
        info = self._catalog.get(row.value)
        price = f"Prices per million tokens, of {PRICES_TAKEN}." if info.price else ""
        if row.value == self._current:
            return wrapped([(f"In force now. {price}", palette.muted)], width, 2)
        if self._context_tokens > info.context_window:
            text = (
                f"! Its window holds {tokens(info.context_window)}, the conversation has "
                f"{tokens(self._context_tokens)}: it would have to be compacted first."
            )
            return wrapped([(text, palette.warning)], width, 2)
        return wrapped([(f"{rebilled(info.price, self._sent_anew)} {price}", palette.muted)], width, 2)

    def unlisted(self, query: str) -> Row[str] | None:
        name = self._catalog.resolve(query)
        if len(query.split()) != 1 or name in self._catalog.known_ids() or len(query) < 3:
            return None
        info = self._catalog.get(name)
        about = "as typed; " + ("a name of a known model" if info.known else "its window and price are not known")
        return Row(name, f"use {name}", about)


def rebilled(price: Price | None, context_tokens: int) -> str:
    """What a change costs: the new model has nothing of this conversation in its cache."""
    if not context_tokens:
        return NOTHING_CACHED
    said = f"A change leaves the prompt cache behind: the next request bills {context_tokens:,} tokens anew"
    if price is None:
        return f"{said}; the price is not known."
    return f"{said}, {roughly(price.cost(Usage(cache_write_5m_tokens=context_tokens)))}."


def _detail(info: ModelInfo) -> str:
    """In columns: window, price in and out, effort levels, short name."""
    window = f"{tokens(info.context_window):>4}"
    price = f"${info.price.input:g} in / ${info.price.output:g} out" if info.price else ""
    if not info.efforts:
        efforts = "no effort levels" if info.known else "not in the list"
    else:
        efforts = f"effort {info.efforts[0]}–{info.efforts[-1]}"
    names = [alias for alias, id in ALIASES.items() if id == info.id and alias != "default"]
    return f"{window}  {price:<19}  {efforts:<16}  {', '.join(names)}".rstrip()
