"""The `/cost` page: tokens and dollars per model, and the share that was read from the cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.cells import cell_len
from rich.style import Style

from agentcli.commands.cost import UNUSED, UNUSED_SINCE_RESUME, counts_of, price, together
from agentcli.core.frozen import frozen
from agentcli.core.text.format import about_money, counted, money, percent, token_count
from agentcli.core.usage import ModelTotals, Totals, Usage
from agentcli.tui.screens.page import Page
from agentcli.tui.screens.text import Runs, at_right, pad, safe, wrap_rows

_BOLD = Style(bold=True)
_COLUMNS = ("requests", "input", "output", "cache write", "cache read", "cost")
_GAP = 2
_LABEL = 9
_MAX_ROWS = 6


@frozen
class CostNotes:
    next_usd: float | None = None
    """Estimated cost of sending the next request; None if unknown."""
    cold: bool = False
    lost: str = ""
    """Sentence about input that was billed again although it had been cached."""
    before: str = ""
    """Sentence about usage before the session was resumed."""
    budget: float | None = None
    """Spending limit of this process in dollars; None: unlimited."""
    saved: str = ""
    """Sentence about what leaving out old content saved and what it caused to be billed again."""


class CostPage(Page[None]):
    """`details(width)`: further tables of prompts, tools and agents as plain text (`commands.cost.details`)."""

    def __init__(
        self,
        totals: Totals,
        notes: CostNotes | None = None,
        details: Callable[[int], Sequence[str]] = lambda _width: (),
    ) -> None:
        super().__init__("Cost of this session")
        self._totals = totals
        self._notes = notes or CostNotes()
        self._details = details

    def lines(self, width: int) -> Sequence[Runs]:
        if not self._totals.by_model:
            before = self._notes.before
            rows: list[Runs] = [[(UNUSED_SINCE_RESUME if before else UNUSED, self.palette.muted)]]
            if before:
                rows += [[], *self._labelled("Before", [(before, self.palette.text)], width)]
            return rows
        table = self._table(width, exact=True) or self._table(width, exact=False) or self._stack()
        rows = [*table, [], *self._sentences(width)]
        for further in self._details(width):
            header, *texts = further.splitlines()
            rows += [[], [(header, self.palette.muted)], *([(text, self.palette.text)] for text in texts)]
        return rows

    def _table(self, width: int, exact: bool) -> list[Runs]:
        palette, totals = self.palette, self._totals
        cells: list[tuple[str, ...]] = [("model", *_COLUMNS)]
        cells += [(safe(model, 60), *self._numbers(used, exact)) for model, used in totals.by_model.items()]
        if len(totals.by_model) > 1:
            cells.append(("together", *self._numbers(together(totals), exact)))
        widths = [max(cell_len(row[place]) for row in cells) + _GAP for place in range(len(cells[0]))]
        if sum(widths) - _GAP > width:
            return []
        unpriced = [False, *(used.unpriced_requests > 0 for used in totals.by_model.values()), not totals.fully_priced]
        styles = [palette.muted, *[palette.text] * len(totals.by_model), palette.text + _BOLD]
        rows: list[Runs] = []
        for texts, style, doubtful in zip(cells, styles, unpriced, strict=False):
            row: Runs = [(pad(texts[0], widths[0] - _GAP), style)]
            row += [(at_right(text, size), style) for text, size in zip(texts[1:], widths[1:], strict=True)]
            if doubtful:
                row[-1] = (row[-1][0], palette.warning)
            rows.append(row)
        if len(totals.by_model) > 1:
            rows.insert(-1, [("─" * (sum(widths) - _GAP), palette.faint)])
        return rows

    def _stack(self) -> list[Runs]:
        palette = self.palette
        rows: list[Runs] = []
        for model, used in self._totals.by_model.items():
            said = price(used, "unknown price")
            style = palette.warning if used.unpriced_requests else palette.text
            usage = used.usage
            sent, received = token_count(usage.input_tokens), token_count(usage.output_tokens)
            wrote, read = token_count(usage.cache_creation_input_tokens), token_count(usage.cache_read_input_tokens)
            rows += [
                [(safe(model, 60), palette.text + _BOLD), ("  ", style), (said, style)],
                [(f"  {counted(used.requests, 'request')}", palette.muted)],
                [(f"  input {sent} · output {received}", palette.muted)],
                [(f"  cache: wrote {wrote} · read {read}", palette.muted)],
            ]
        return rows

    def _sentences(self, width: int) -> list[Runs]:
        palette, totals, notes = self.palette, self._totals, self._notes
        total: Runs = [(money(totals.cost_usd), palette.text + _BOLD)]
        if not totals.fully_priced:
            count = sum(used.unpriced_requests for used in totals.by_model.values())
            total.append((f"  and {counted(count, 'request')} of unknown price", palette.warning))
        if notes.before:
            total.append((" since it was resumed", palette.text))
        usage: Usage = totals.usage
        said = dict.fromkeys(("Budget", "Cached", "Searches", "Before", "Next"), "")
        if notes.budget:
            said["Budget"] = f"{money(notes.budget)}, {percent(totals.cost_usd, notes.budget)} of it spent"
        if usage.prompt_tokens:
            share = percent(usage.cache_read_input_tokens, usage.prompt_tokens)
            said["Cached"] = f"{share} of all input was read from the cache"
        if usage.web_search_requests:
            said["Searches"] = f"{usage.web_search_requests:,} on the web"
        if notes.next_usd is not None:
            cold = ": the cache is cold" if notes.cold else ""
            said["Next"] = f"{about_money(notes.next_usd)} for sending the next request{cold}"
        said |= {"Before": notes.before, "Lost": notes.lost, "Saved": notes.saved}
        rows = self._labelled("Session", total, width)
        for label, text in said.items():
            rows += self._labelled(label, [(text, palette.text)], width) if text else []
        return rows

    def _labelled(self, label: str, runs: Runs, width: int) -> list[Runs]:
        """Wrap the text below itself, not below the label."""
        rows = wrap_rows(runs, max(1, width - _LABEL), _MAX_ROWS)
        names = [label, *[""] * (len(rows) - 1)]
        return [[(pad(name, _LABEL), self.palette.muted), *row] for name, row in zip(names, rows, strict=True)]

    @staticmethod
    def _numbers(used: ModelTotals, exact: bool) -> tuple[str, ...]:
        return (*(f"{count:,}" if exact else token_count(count) for count in counts_of(used)), price(used))
