"""The list of sessions, with a search in their names and in all their texts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

from agentcli.commands.session import SessionChoice
from agentcli.core.text.format import ago, counted, money
from agentcli.session.find import SessionInfo
from agentcli.session.search_index import IndexUnavailable, NotNeeded, Pace, SearchHit, SessionFacts, SessionIndex
from agentcli.session.search_text import SIGNS
from agentcli.tui.blocks.rows import Runs
from agentcli.tui.screens.picker import Picker
from agentcli.tui.screens.row_list import FoundEntry, Row, RowEntry, entries_of, find
from agentcli.tui.screens.sheet import Keys
from agentcli.tui.screens.text import safe, wrap_rows

LastLines = Callable[[SessionInfo], Sequence[str]]

MAX_NAMES = 8
"""Names above the texts that were found."""
MAX_HITS = 50
_FIRST = 100
"""Sessions that are shown while the others are listed, which takes seconds if there are thousands and no index."""
_TYPING_SECONDS = 0.08
"""How long a query must stay the same before texts are searched."""


class SessionPicker(Picker[SessionChoice]):
    """Returns a session, with a prompt of it if it was found by its texts. The index is updated while the list is open.

    `index` and `last_lines` are used in threads; the latter may raise OSError."""

    share = 0.9
    expected_rows = 20
    preview_in_thread = True
    preview_end = True
    preview_keeps = 4
    verb = "resume"
    placeholder = "type to search names and texts"

    def __init__(
        self,
        index: SessionIndex,
        cwd: Path,
        last_lines: LastLines,
        query: str = "",
        now: Callable[[], float] = time.time,
    ) -> None:
        self._index = index
        self._cwd = cwd
        self._last_lines = last_lines
        self._query = query
        self._now = now
        self._is_everywhere = False
        self._hits: list[FoundEntry[SessionChoice]] = []
        self._hits_for = ""
        """The query that `_hits` answer."""
        self._problem = ""
        """Why texts cannot be searched."""
        self._is_updating = True
        self._has_moved = False
        """Whether the user has moved the cursor since the query was typed."""
        super().__init__("Resume a session", [], preview=self._lines)
        self.empty = "Loading…"

    def on_mount(self) -> None:
        self.entry.line.insert(self._query)
        self.work(self._read, "load")
        self.work(self._update, "follow")

    @property
    def _folder(self) -> Path | None:
        return None if self._is_everywhere else self._cwd

    async def _read(self) -> None:
        for count in (_FIRST, None):
            entries = await asyncio.to_thread(self._list_entries, count)
            if not self.is_open:
                return
            self.empty = "There are no sessions here yet."
            self._set_entries(entries)
            if len(entries) < _FIRST:
                return

    def _list_entries(self, count: int | None) -> list[RowEntry[SessionChoice]]:
        sessions = list(islice(self._index.list_sessions(self._folder), count))
        return entries_of(session_rows(sessions, self._now()))

    async def _update(self) -> None:
        try:
            await asyncio.to_thread(self._index.update, Pace(lambda: self.is_attached))
        except IndexUnavailable as error:
            self._problem = str(error)
        except NotNeeded:
            return
        self._is_updating = False
        if self.is_open:
            self._hits_for = ""
            self._filter(self._chosen)

    # ------------------------------------------------------------------------------------------------------ searching

    def search(self, entries: Sequence[RowEntry[SessionChoice]], query: str) -> list[FoundEntry[SessionChoice]]:
        """Some names with all words of the query, then texts, then the other names, also those that match loosely."""
        words, found = query.casefold().split(), find(entries, query)
        if not words or self._hits_for != query.strip():
            return found
        names = sorted(found, key=lambda one: not _has_words(one, words))
        count = sum(_has_words(one, words) for one in names[:MAX_NAMES])
        return [*names[:count], *self._hits, *names[count:]]

    @property
    def _chosen(self) -> SessionChoice | None:
        """The row that the cursor must not leave, because the user has moved it there."""
        return self.row.value if self._has_moved and self.row is not None else None

    def _cursor_moved(self) -> None:
        self._has_moved = True
        super()._cursor_moved()

    def _filter(self, keep: SessionChoice | None = None) -> None:
        super()._filter(keep)
        query = self.query_text.strip()
        self._has_moved &= keep is not None
        if query and query != self._hits_for:
            self.work(partial(self._search_texts, query), "texts")

    async def _search_texts(self, query: str) -> None:
        await asyncio.sleep(_TYPING_SECONDS)
        try:
            hits = await asyncio.to_thread(self._index.search, query.split(), self._folder, MAX_HITS)
        except IndexUnavailable as error:
            self._problem, hits = str(error), []
        entries = await asyncio.to_thread(lambda: [hit_entry(hit, self._now()) for hit in hits])
        if self.is_open and query == self.query_text.strip():
            self._hits_for, self._hits = query, entries
            # Texts are longer than names: more of the row is theirs.
            self.listing.measure([*self._entries, *(hit.entry for hit in entries)], self.label_cells)
            super()._filter(self._chosen)

    # ------------------------------------------------------------------------------------------------------ showing

    def press(self, key: str, character: str | None) -> bool:
        if key != "tab":
            return super().press(key, character)
        self._is_everywhere = not self._is_everywhere
        self.title_text = f"Resume a session{' · all folders' if self._is_everywhere else ''}"
        self._hits_for = ""
        self.work(self._read, "load")
        self.paint()
        return True

    def keys(self) -> Keys:
        return [("Tab", "this folder" if self._is_everywhere else "all folders"), *super().keys()]

    def asides(self) -> Sequence[str]:
        if not self.query_text.strip():
            return super().asides()
        state = "texts may be missing" if self._problem else "still reading texts…" if self._is_updating else ""
        return (state or counted(self._found_count, "match", "matches"),)

    def about(self, row: Row[SessionChoice] | None, width: int) -> list[Runs]:
        text = self._problem if self.query_text.strip() else ""
        if row is not None and row.value.hit is not None and not self.query_one("#preview").display:
            text = f"In {row.value.session.label}"
        return wrap_rows([(safe(text), self.palette.muted)], width, 2) if text else []

    def _lines(self, row: Row[SessionChoice]) -> Sequence[str]:
        session, hit = row.value.session, row.value.hit
        try:
            facts = self._index.facts(session)
        except IndexUnavailable:
            facts = None
        lines = [*describe(session, facts, self._now()), ""]
        if hit is not None:
            prompt = [line for line in hit.prompt.splitlines() if line.strip()][:8]
            return [*lines, f"❯ {prompt[0] if prompt else ''}", *(f"  {line}" for line in prompt[1:]), "", row.label]
        try:
            return [*lines, *(self._last_lines(session) or ("(nothing to show)",))]
        except OSError as error:
            return [*lines, f"It could not be read: {error.strerror or error}."]


def _has_words(found: FoundEntry[SessionChoice], words: Sequence[str]) -> bool:
    return all(word in found.entry.folded_label for word in words)


def session_rows(sessions: Sequence[SessionInfo], now: float) -> list[Row[SessionChoice]]:
    """Rows in the given order (newest first). The folder is shown if there are several."""
    several = len({session.cwd for session in sessions}) > 1
    rows = []
    for session in sessions:
        count = "–" if session.message_count is None else f"{session.message_count:,}"
        detail = f"{ago(now - session.modified):>9}  {count:>4} msgs"
        if several:
            detail += f"  {_short(session.cwd)}"
        label = " ".join(safe(session.label).split()) or "(no prompt)"
        rows.append(Row(SessionChoice(session), label, detail))
    return rows


def hit_entry(hit: SearchHit, now: float) -> FoundEntry[SessionChoice]:
    """A row for a prompt, with the words that were found in it, its answer or its calls."""
    sign = f"{SIGNS[hit.found.role]} "
    detail = f"{ago(now - hit.time):>9}  {f'#{hit.number}':>9}"
    (entry,) = entries_of([Row(SessionChoice(hit.session, hit), sign + hit.found.text, detail)])
    return FoundEntry(entry, tuple(len(sign) + place for mark in hit.found.marks for place in range(*mark)))


def describe(session: SessionInfo, facts: SessionFacts | None, now: float) -> list[str]:
    """What the list does not show of a session. `facts`: None if the index does not have it yet."""
    parts = [ago(now - session.modified)]
    if facts is not None:
        parts += [counted(facts.prompts, "prompt"), money(facts.cost_usd)]
        parts += [f"branch {facts.branch}"] if facts.branch else []
    files = [_short(name) for name in facts.files[:3]] if facts is not None else []
    if facts is not None and len(facts.files) > len(files):
        files.append(f"{len(facts.files) - len(files)} more")
    return [safe(session.label, 100), " · ".join(parts), f"Changed: {', '.join(files)}" if files else session.cwd]


def _short(path: str) -> str:
    """Last component of a path, which identifies the project or the file."""
    return safe(path).rstrip("/").rpartition("/")[2] or "/"
