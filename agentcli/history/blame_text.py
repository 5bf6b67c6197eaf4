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
from agentcli.core.text.columns import cut
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


@slotted
class BlameText:
    # `asyncio.run` makes the representation of a result twice.
    __repr__ = object.__repr__

    blame: Blame
    first: int
    """Number of the first line to show."""
    last: int

    @property
    def lines(self) -> Sequence[tuple[str, LineOrigin]]:
        """The shown lines, each with its origin."""
        return list(zip(self.blame.lines, self.blame.origins, strict=True))[self.first - 1 : self.last]

    def format(self, width: int | None = None, *, styled: bool = False) -> Iterator[str]:
        """The lines, and what their marks stand for. Safe for a terminal. `width`: None if lines are not cut."""
        origins = [origin for _line, origin in self.lines]
        marks = {origin: mark_origin(origin) for origin in origins}
        column, digits = max(map(len, marks.values()), default=0), len(str(self.last))
        for number, (line, origin) in enumerate(self.lines, self.first):
            mark, text = f"{marks[origin]:{column}}", terminal_line(line.rstrip("\r").expandtabs(_TAB))
            if width is not None:
                text = cut(text, width - column - digits - 5)
            head = f"\x1b[{_COLOURS[origin.kind]}m{mark}\x1b[0m" if styled else mark
            yield f"{head}  {number:>{digits}} │ {text}".rstrip()
        yield ""
        yield from self.explain(origins, width)
        if self.blame.names:
            yield from _wrap(f"Earlier names: {', '.join(map(show_name, self.blame.names))}", width)

    def explain(self, origins: Sequence[LineOrigin], width: int | None) -> Iterator[str]:
        """What each mark stands for: its call, time, model and cost, and once what its prompt said."""
        said = ""
        for origin, number in Counter(origins).items():
            mark, count, change = mark_origin(origin), counted(number, "line"), origin.change
            if change is None:
                yield from _wrap(f"{mark}  {_LEGEND[origin.kind]}: {count}", width)
                continue
            cost = None if change.request is None else change.request.cost_usd
            price = "" if cost is None else money(cost)
            facts = (_describe_call(origin), local_time(change.at), plain_line(change.model, 40), price)
            yield from _wrap(f"{mark}  {'  '.join(filter(None, facts))}: {count}", width)
            if change.prompt is not None and change.prompt.id != said:
                said = change.prompt.id
                yield from _wrap(f"  “{change.prompt_text}”, {money(change.prompt.cost_usd)} in all", width)

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


def mark_origin(origin: LineOrigin) -> str:
    """In short: who wrote a line."""
    if (change := origin.change) is None:
        return _NAMES[origin.kind]
    # The first part of an id is enough for -r.
    prompt = f":{change.prompt_number}" if change.prompt_number else ""
    call = f" #{change.call_number}" if change.call is not None else " sub-agent" if change.others else ""
    return f"{change.session_id[:8]}{prompt}{call}{'?' * origin.is_doubtful}"


def _wrap(text: str, width: int | None) -> list[str]:
    return [text] if width is None else textwrap.wrap(text, width, subsequent_indent="    ")


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
