"""Lists to choose from: model, effort, permission mode, theme, earlier prompt, help, hooks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from agentcli.context.report import ChangePrice
from agentcli.core.permission import PermissionMode
from agentcli.core.text.format import money, token_count
from agentcli.core.text.fuzzy import fold_case, is_case_sensitive
from agentcli.interactive.drafts import Draft
from agentcli.providers.catalog import ALIASES, EFFORTS, PRICES_TAKEN, Catalog, ModelInfo
from agentcli.tui.blocks.rows import Runs, join_runs
from agentcli.tui.modes import MODE_WORDS
from agentcli.tui.screens.page import TextPage
from agentcli.tui.screens.picker import ListSheet, Picker
from agentcli.tui.screens.row_list import FoundEntry, Row, RowEntry, entries_of, find
from agentcli.tui.screens.sheet import Keys
from agentcli.tui.screens.text import safe, wrap_rows
from agentcli.tui.theme.palette import Palette

if TYPE_CHECKING:
    from agentcli.commands.extensions import HookRow

ACTIVE_SIGN = "●"
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
        price_of_change: Callable[[str], ChangePrice] = lambda _model: ChangePrice(0, 0.0),
    ) -> None:
        self._catalog = catalog
        self._current = catalog.resolve(current)
        self._context_tokens = context_tokens
        self._price_of_change = price_of_change
        known = catalog.list_ids()
        ids = known if self._current in known else (self._current, *known)
        rows = [self._row(catalog.get(id)) for id in ids]
        super().__init__("Model", rows, start=self._current)

    def _row(self, info: ModelInfo) -> Row[str]:
        mark = ACTIVE_SIGN if info.id == self._current else ""
        group = "Price known" if info.price else "Price unknown"
        return Row(info.id, info.id, _detail(info), mark, group)

    def about(self, row: Row[str] | None, width: int) -> list[Runs]:
        if row is None:
            return []
        info, palette = self._catalog.get(row.value), self.palette
        window, tokens = token_count(info.context_window), token_count(self._context_tokens)
        price = f"Prices per million tokens, as of {PRICES_TAKEN}." if info.price else ""
        if row.value == self._current:
            text = f"Active now. {price}"
        elif self._context_tokens > info.context_window:
            warning = f"! Its context window is {window} tokens and the conversation has {tokens}: compact it first."
            return wrap_rows([(warning, palette.warning)], width, 2)
        else:
            text = f"{describe_change(self._price_of_change(row.value))} {price}"
        return wrap_rows([(text, palette.muted)], width, 2)

    def make_unlisted(self, query: str) -> Row[str] | None:
        name = self._catalog.resolve(query)
        if len(query.split()) != 1 or name in self._catalog.list_ids() or len(query) < 3:
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
        price_of_change: Callable[[str], ChangePrice] = lambda _level: ChangePrice(0, 0.0),
    ) -> None:
        self._current = current or "auto"
        self._price_of_change = price_of_change
        super().__init__(f"Effort of {safe(info.id, 60)}", self._rows(info), start=self._current)

    def _rows(self, info: ModelInfo) -> list[Row[str]]:
        default = f"the model's own default: {info.default_effort}" if info.default_effort else "nothing is sent"
        marks = {self._current: ACTIVE_SIGN}
        rows = [Row("auto", "auto", default, marks.get("auto", ""))]
        for level in EFFORTS:
            takes = f"supports only {', '.join(info.efforts)}" if info.efforts else "does not support effort levels"
            why = "" if level in info.efforts else f"{safe(info.id, 60)} {takes}"
            rows.append(Row(level, level, _MEANS[level], marks.get(level, ""), disabled=why))
        return rows

    def about(self, row: Row[str] | None, width: int) -> list[Runs]:
        if row is None:
            return []
        is_active = row.value == self._current
        text = "Active now." if is_active else describe_change(self._price_of_change(row.value))
        return wrap_rows([(text, self.palette.muted)], width, 2)


def describe_change(price: ChangePrice) -> str:
    if not price.text:
        return "Nothing is cached, so a change costs nothing."
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


_WARNING = (
    "! Commands and edits run without review, even those that a file or a web page tricked the model into. "
    "Use it only on a disposable machine."
)


_CYCLING = "Shift+Tab at the prompt cycles through the modes."


class ModePicker(Picker[PermissionMode]):
    def __init__(self, current: PermissionMode) -> None:
        rows = [
            Row(mode, words.label, words.meaning, ACTIVE_SIGN if mode is current else "")
            for mode, words in ((PermissionMode(name), words) for name, words in MODE_WORDS.items())
        ]
        super().__init__("Permission mode", rows, start=current)

    def about(self, row: Row[PermissionMode] | None, width: int) -> list[Runs]:
        if row is None:
            return []
        if row.value is PermissionMode.BYPASS:
            return wrap_rows([(_WARNING, self.palette.warning)], width, 3)
        is_auto = row.value is PermissionMode.AUTO
        more = "Commands have no network; anything more needs approval." if is_auto else _CYCLING
        return wrap_rows([(f"In settings: {row.value.value}. {more}", self.palette.muted)], width, 2)


ThemeChoice = tuple[str, str, bool]
Try = Callable[[str], Palette | None]
"""Applies a theme. Returns the palette for the picker itself, or None to keep its palette."""


class ThemePicker(Picker[str]):
    """Returns the name of the theme or `auto`. The theme is already applied then."""

    def __init__(self, themes: Sequence[ThemeChoice], current: str, preview: Try) -> None:
        described = "dark or light, as the terminal's background is"
        rows = [Row("auto", "auto", described, ACTIVE_SIGN if current == "auto" else "", "Automatic")]
        rows += [
            Row(name, name, description, ACTIVE_SIGN if name == current else "", "Dark" if dark else "Light")
            for name, description, dark in sorted(themes, key=lambda theme: not theme[2])
        ]
        super().__init__("Theme", rows, start=current)
        self._try = preview
        self._before = current
        self._on = current

    def follow_cursor(self, row: Row[str] | None) -> None:
        # No theme matches the query: show the original one instead of the last match.
        self._put_on(row.value if row is not None else self._before)

    def leave(self) -> None:
        self._put_on(self._before)
        super().leave()

    def _put_on(self, name: str) -> None:
        if name == self._on:
            return
        self._on = name
        palette = self._try(name)
        if palette is not None:
            self.palette = palette
            self.call_after_refresh(self.settle)

    def about(self, row: Row[str] | None, width: int) -> list[Runs]:
        palette = self.palette
        samples: list[Runs] = [
            [("text", palette.text), (" ", palette.text), ("muted", palette.muted)],
            [("heading", palette.heading)],
            [("code", palette.code)],
            [("✓ done", palette.success)],
            [("! careful", palette.warning)],
            [("✗ failed", palette.error)],
            [("+ added", palette.added), (" ", palette.text), ("- removed", palette.removed)],
        ]
        return [join_runs(samples, ("  ", palette.text))]


_MAX_SEARCHED = 2_000
"""Characters of an earlier prompt that are searched."""
_MAX_LISTED = 400
"""Characters of an earlier prompt that are listed, and matched loosely."""


class HistoryPicker(Picker[Draft]):
    """Returns an earlier prompt. Opens before they are read, so that letters typed right after its key filter them.

    `load` runs in a thread and returns them newest first."""

    max_at_once = 50

    def __init__(self, load: Callable[[], Sequence[Draft]]) -> None:
        self._load = load
        super().__init__("Earlier prompts", [])
        self.empty = "Reading…"

    def on_mount(self) -> None:
        self.work(self._read, "load")

    async def _read(self) -> None:
        entries = await asyncio.to_thread(self._make_entries)
        self.empty = "There are no earlier prompts here yet."
        if self.is_open:
            self._set_entries(entries)

    def _make_entries(self) -> list[RowEntry[Draft]]:
        return entries_of(Row(draft, " ".join(draft.text[:_MAX_LISTED].split())) for draft in self._load())

    def search(self, entries: Sequence[RowEntry[Draft]], query: str) -> list[FoundEntry[Draft]]:
        """Prompts that contain the query, newest first, then those that match it loosely."""
        wanted, exact = " ".join(query.split()), is_case_sensitive(query)
        if not wanted:
            return find(entries, "")
        literal: list[FoundEntry[Draft]] = []
        others: list[RowEntry[Draft]] = []
        for entry in entries:
            text = " ".join(entry.row.value.text[:_MAX_SEARCHED].split())
            if wanted in (text if exact else fold_case(text)):
                place = (entry.label if exact else entry.folded_label).find(wanted)
                literal.append(FoundEntry(entry, tuple(range(place, place + len(wanted))) if place >= 0 else ()))
            else:
                others.append(entry)
        return [*literal, *find(others, query)]


HelpEntry = tuple[str, str, str]


class HelpPage(ListSheet[str, str]):
    """Returns the command chosen with Enter, for the prompt; None for a key."""

    share = 0.9
    label_cells = 26
    wide = 130
    """Minimum width for a preview: below it, half of the width would cut the descriptions of keys."""
    verb = "use the command"

    def __init__(
        self,
        commands: Sequence[HelpEntry],
        keys: Sequence[HelpEntry],
        more: Callable[[str], Sequence[str]],
        commands_first: bool = False,
    ) -> None:
        """`more(command)`: lines shown beside a command if there is room."""
        key_rows = [Row("", key, text, group=group or "Keys") for group, key, text in keys]
        command_rows = [Row(command, command, text, group=group or "Commands") for group, command, text in commands]
        rows = [*command_rows, *key_rows] if commands_first else [*key_rows, *command_rows]
        super().__init__("Help", rows, preview=lambda row: more(row.value) or (row.label, row.detail))

    def choose(self, row: Row[str]) -> None:
        self.dismiss(row.value or None)

    def keys(self) -> Keys:
        use = [("Enter", self.verb)] if self.row is not None and self.row.value else []
        return [("↑↓", "move"), *use, ("Esc", "close")]


class HooksPage(ListSheet[int, None]):
    share = 0.9
    verb = "show"

    def __init__(self, hooks: Sequence[HookRow]) -> None:
        self._hooks = tuple(hooks)
        rows = [
            # A reason first: it matters more than the file if there is no room for both.
            Row(number, hook.command, "  ".join(filter(None, parts)), group=hook.subject)
            for number, hook in enumerate(self._hooks)
            for parts in [(hook.state, hook.source) if hook.inactive else (hook.source, hook.last)]
        ]
        super().__init__("Hooks", rows, preview=lambda row: self._lines(row.value))

    def choose(self, row: Row[int]) -> None:
        self.open(TextPage(self._hooks[row.value].subject, self._lines(row.value)))

    def keys(self) -> Keys:
        return [("type", "search"), ("↑↓", "move"), ("Enter", self.verb), ("Esc", "back")]

    def _lines(self, number: int) -> list[str]:
        hook = self._hooks[number]
        return [
            f"Event: {hook.event}",
            f"Matcher: {hook.matcher or '*'}",
            f"From: {hook.source or 'the program that uses agentcli'}",
            f"Not active: {hook.inactive}" if hook.inactive else f"Last run: {hook.last or 'none yet'}",
            "",
            *hook.command.splitlines(),
        ]
