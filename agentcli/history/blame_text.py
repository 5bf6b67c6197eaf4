"""The result of a blame as text for a terminal or a pipe, and as JSON."""

from __future__ import annotations

import os
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from agentcli.core.aio import in_thread
from agentcli.core.errors import AgentError, UsageError
from agentcli.core.frozen import slotted
from agentcli.core.messages import Json
from agentcli.core.processes.own_programs import clean_search_path
from agentcli.core.text.columns import cell_count, cut
from agentcli.core.text.format import counted, local_time, money
from agentcli.core.text.plaintext import plain_line, show_name, terminal_line
from agentcli.history.blame import Blame, Kind, LineOrigin, blame, parse_place
from agentcli.history.states import title_of
from agentcli.workspace.base import SnapshotError, SnapshotLocation
from agentcli.workspace.folders import SnapshotFolders

_COLOURS: Mapping[Kind, str] = {"call": "36", "user": "32", "before": "2", "unknown": "33"}
_NAMES: Mapping[Kind, str] = {"call": "", "user": "you", "before": "before", "unknown": "unknown"}
_LEGEND: Mapping[Kind, str] = {
    "call": "",
    "user": "changed by you, outside of any call",
    "before": "older than all changes by calls",
    "unknown": "the snapshots that tell were deleted. They are kept for 30 days, for less if they take much space",
}
_TAB = 4
_MIN_CODE_SHARE = 0.55
"""Share of the width that is left to the lines of the file if they need it: columns before them are left out."""


@slotted
class BlameText:
    # `asyncio.run` makes the representation of a result twice.
    __repr__ = object.__repr__

    blame: Blame
    first: int
    """Number of the first line to show."""
    last: int
    width: int | None = None
    """None: complete rows, as for programs."""
    is_styled: bool = False

    @property
    def lines(self) -> Sequence[tuple[str, LineOrigin]]:
        """The shown lines, each with its origin."""
        return list(zip(self.blame.lines, self.blame.origins, strict=True))[self.first - 1 : self.last]

    def format(self) -> Iterator[str]:
        """Safe for a terminal."""
        lines = [terminal_line(line.rstrip("\r").expandtabs(_TAB)) for line, _origin in self.lines]
        origins = [origin for _line, origin in self.lines]
        cells = {origin: self.describe(origin) for origin in dict.fromkeys(origins)}
        widths = [max(cell_count(row[column]) for row in cells.values()) for column in range(5)] if cells else []
        digits = len(str(self.last))
        shown = self._choose_columns(widths, digits, max(map(cell_count, lines), default=0))
        before: LineOrigin | None = None
        for number, (line, origin) in enumerate(zip(lines, origins, strict=True), self.first):
            columns = [(cells[origin][column], widths[column]) for column in shown]
            head = "".join(f"{text}{' ' * (width - cell_count(text))}  " for text, width in columns)
            if self.width is not None:
                line = cut(line, self.width - cell_count(head) - digits - 3)
                head = " " * cell_count(head) if origin == before else self._paint(head, origin)
            yield f"{head}{number:>{digits}} │ {line}".rstrip()
            before = origin
        yield from self.format_legend(origins)

    def _choose_columns(self, widths: Sequence[int], digits: int, longest: int) -> list[int]:
        """The columns that fit: call, time, cost and model go in the reverse order."""
        shown = [column for column in range(len(widths)) if widths[column]]
        if self.width is not None:
            room = self.width - min(longest, int(self.width * _MIN_CODE_SHARE)) - digits - 3
            while len(shown) > 1 and sum(widths[column] + 2 for column in shown) > room:
                shown.pop()
        return shown

    def _paint(self, text: str, origin: LineOrigin) -> str:
        return f"\x1b[{_COLOURS[origin.kind]}m{text}\x1b[0m" if self.is_styled else text

    def _mark(self, origin: LineOrigin) -> str:
        if (change := origin.change) is None:
            return _NAMES[origin.kind]
        # The first part of an id is enough for -r; programs get all of it.
        id = change.session_id if self.width is None else change.session_id[:8]
        return f"{id}:{change.prompt_number}" if change.prompt_number else id

    def describe(self, origin: LineOrigin) -> tuple[str, ...]:
        """The columns: mark, call, time, cost, model."""
        if (change := origin.change) is None:
            return self._mark(origin), "", "", "", ""
        call = "sub-agent" if change.others else ""
        if change.call is not None:
            call = f"#{change.call_number} {plain_line(change.call.name, 20)}"
        cost = None if change.request is None else change.request.cost_usd
        when, price = local_time(change.at), "" if cost is None else money(cost)
        return self._mark(origin), call + "?" * origin.is_doubtful, when, price, plain_line(change.model, 40)

    def format_legend(self, origins: Sequence[LineOrigin]) -> Iterator[str]:
        groups: dict[tuple[str, str], list[LineOrigin]] = {}
        for origin in origins:
            prompt = None if origin.change is None else origin.change.prompt
            groups.setdefault((self._mark(origin), "" if prompt is None else prompt.id), []).append(origin)
        yield ""
        for (mark, _prompt), members in groups.items():
            count, change = counted(len(members), "line"), members[0].change
            head = self._paint(mark, members[0])
            if change is None:
                yield from self._wrap(f"{mark}  {count}: {_LEGEND[members[0].kind]}.", head)
                continue
            facts = [local_time(change.prompt.at), f"{money(change.prompt.cost_usd)} in all"] if change.prompt else []
            models = {plain_line(one.change.model): 0 for one in members if one.change is not None}
            yield from self._wrap("  ".join(filter(None, (mark, *facts, ", ".join(models), count))), head)
            if change.prompt_text:
                yield from self._wrap(f"  “{change.prompt_text}”")
            for origin, lines in Counter(members).items():
                yield from self._wrap(f"  {_describe_call(origin)}: {counted(lines, 'line')}")
        if self.blame.names:
            yield from self._wrap(f"Earlier names: {', '.join(map(show_name, self.blame.names))}")

    def _wrap(self, text: str, head: str = "") -> Iterator[str]:
        """`head`: its first word, painted."""
        rows = [text] if self.width is None else textwrap.wrap(text, self.width, subsequent_indent="    ")
        word, blank, rest = rows[0].partition(" ")
        yield f"{head or word}{blank}{rest}"
        yield from rows[1:]

    def record(self) -> Json:
        """Everything for programs."""
        places = {origin: place for place, origin in enumerate(dict.fromkeys(origin for _line, origin in self.lines))}
        lines = enumerate(self.lines, self.first)
        return {
            "path": str(self.blame.path),
            "earlier_paths": self.blame.names,
            "lines": [{"line": number, "text": text, "origin": places[origin]} for number, (text, origin) in lines],
            "origins": [_record(origin) for origin in places],
        }


async def read_blame(place: str, cwd: Path, state_dir: Path) -> BlameText:
    """The lines that `place` names: FILE[:LINES]. Raises `AgentError`."""
    path, first, last = await in_thread(lambda: parse_place(place, cwd))
    search_path = clean_search_path(os.environ.get("PATH"), [cwd])
    state_dir = await in_thread(state_dir.resolve)
    folders = SnapshotFolders(SnapshotLocation(state_dir, "blame", search_path))
    try:
        found = await blame(path, state_dir, folders)
    except (SnapshotError, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise AgentError(f"The snapshots cannot be read: {reason}.") from error
    finally:
        await folders.aclose()
    count = len(found.lines)
    if first > max(1, count):
        raise UsageError(f"{show_name(str(path))} has only {counted(count, 'line')}.")
    return BlameText(found, first, min(last or count, count))


def _describe_call(origin: LineOrigin) -> str:
    change = origin.change
    assert change is not None
    doubt = ", or your own change while it ran" if origin.is_doubtful else ""
    others = ", or ".join(map(title_of, change.others))
    if change.call is not None:
        call = f"Call {change.call_number} of {change.calls}, {change.title}{', or ' if others else ''}{others}"
    else:
        call = f"A call of a sub-agent ({others})" if others else "A call of this prompt"
    return f"{call}{doubt}"


def _record(origin: LineOrigin) -> Json:
    change = origin.change
    if change is None:
        return {"kind": origin.kind}
    prompt_cost = None if change.prompt is None else change.prompt.cost_usd
    doubt = {"or_user": origin.is_doubtful, "or_calls": [title_of(call) for call in change.others]}
    return {"kind": origin.kind, **change.record(), "prompt_cost_usd": prompt_cost, **doubt}
