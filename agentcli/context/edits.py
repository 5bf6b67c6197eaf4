"""Edits: decisions about how old messages are shown in requests, as values. The log is never rewritten.

An edit is made once, recorded as an event, and applied to the log by every later request, byte for byte and also in
another process: the prompt cache depends on it. A block is named by its message and its index (`<id>:<n>`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from sys import intern
from typing import Any, Literal, get_args

from agentcli.core.frozen import frozen, replace, slotted
from agentcli.core.messages import Block, ImageBlock, Json, Message, Origin, TextBlock, ToolResultBlock
from agentcli.core.space_saving import AppendOnly, as_append_only

WRITTEN = "messages"
"""Meta key of a boundary: the ids of all messages that belong to it, in order."""
NUMBERS = "numbers"
"""Meta key of a message shown without some of its blocks: the number that each remaining block has in the log."""

COLLAPSED = "collapse:"
"""Id prefix of a message that replaces several others; the id of the first of them follows."""

EditKind = Literal["replace", "drop", "collapse", "undo_compaction", "restore"]
"""replace: `text` replaces the content of a result or text, or a picture.

drop: the block is left out; dropping a call drops its result too (both are named).
collapse: one message with `text` replaces all messages from `target` through `through` (ids of messages).
undo_compaction: the boundary `target` and the messages after it, through `through`, are ignored.
restore: earlier edits of `target` no longer apply.
"""


@frozen(kw_only=True)
class ContextEdit:
    kind: EditKind
    target: str
    text: str = ""
    through: str = ""
    step: str = ""
    """Origin: `budget`, `snip`, `microcompact`, `collapse`, `compact`, `user`."""
    freed: int = 0
    """Estimated tokens saved per request."""


def edit_to_dict(edit: ContextEdit) -> Json:
    names = ("kind", "target", "text", "through", "step", "freed")
    return {name: value for name in names if (value := getattr(edit, name))}


def edit_from_dict(data: Mapping[str, Any]) -> ContextEdit:
    """Inverse of `edit_to_dict`. Raises KeyError or ValueError for invalid data."""
    kind = data["kind"]
    if kind not in get_args(EditKind):
        raise ValueError(f"unknown edit: {kind!r}")
    texts = {name: str(data.get(name, "")) for name in ("text", "through", "step")}
    return ContextEdit(kind=kind, target=str(data["target"]), freed=int(data.get("freed", 0)), **texts)


def block_id(message: Message, place: int) -> str:
    """The name of a block, in the log or as shown."""
    # Interned: a dozen lists and tables refer to the blocks of a long conversation by name.
    return intern(f"{message.id}:{block_number(message, place)}")


def block_number(message: Message, place: int) -> int:
    """The number of a block in the log, which differs from its shown position when others are left out."""
    numbers = message.meta.get(NUMBERS)
    return int(numbers[place]) if numbers is not None else place


def leave_out(message: Message, content: Sequence[Block | None]) -> Message:
    """A copy of the message with these blocks in place of its own; None leaves one out."""
    kept = [place for place, block in enumerate(content) if block is not None]
    blocks = tuple(block for block in content if block is not None)
    if len(kept) == len(content):
        return replace(message, content=blocks)
    meta = {**message.meta, NUMBERS: [block_number(message, place) for place in kept]}
    return replace(message, content=blocks, meta=meta)


@frozen
class _Active:
    """The active part of a log, valid until an edit is added. Later messages are only appended to each sequence."""

    log: AppendOnly[Message]
    in_force: AppendOnly[Message]
    shown: AppendOnly[Message]
    uncollapsed: AppendOnly[Message]


@slotted
class _EditedMessage:
    """The edits of a message's blocks in order, and a cache: the message they were last applied to, and the result."""

    edits: tuple[ContextEdit, ...]
    message: Message | None = None
    shown: Message | None = None


class Edits:
    """All active edits, and messages with them applied. Unchanged messages are returned as the same objects."""

    def __init__(self) -> None:
        self._edited: dict[str, _EditedMessage] = {}
        """By message id. Entries are never changed except for their cache: copies of this table share them."""
        self._collapses: dict[str, ContextEdit] = {}
        """By the id of the first message."""
        self._restored: dict[str, str] = {}
        self._undone: dict[str, str] = {}
        self._spans: dict[str, tuple[ContextEdit, Message]] = {}
        self._active: _Active | None = None

    def copy(self) -> Edits:
        other = Edits()
        other._edited = dict(self._edited)
        other._collapses, other._spans = dict(self._collapses), dict(self._spans)
        other._restored, other._undone = dict(self._restored), dict(self._undone)
        return other

    def add(self, edit: ContextEdit) -> None:
        self._active = None
        match edit.kind:
            case "collapse":
                self._collapses[edit.target] = edit
                self._restored.pop(edit.target, None)
            case "undo_compaction":
                self._undone[edit.target] = edit.through
            case "restore":
                self._forget(edit.target)
            case _:
                message_id, _colon, number = edit.target.rpartition(":")
                if number.isdigit():
                    edits = (*self._other_edits(message_id, int(number)), edit)
                    self._edited[message_id] = _EditedMessage(tuple(sorted(edits, key=_number)))

    @property
    def restored_spans(self) -> Mapping[str, str]:
        """Collapsed spans that were restored: first message to last message."""
        return self._restored

    @property
    def messages(self) -> AbstractSet[str]:
        return self._edited.keys()

    def edited(self, block: str) -> ContextEdit | None:
        edited = self._edited.get(block.rpartition(":")[0])
        if edited is not None:
            for edit in edited.edits:
                if edit.target == block:
                    return edit
        return None

    def in_force(self, log: Sequence[Message]) -> AppendOnly[Message]:
        """The messages after the last valid compact boundary, without those of undone boundaries."""
        return self._activate(log).in_force

    def active(self, log: Sequence[Message]) -> AppendOnly[Message]:
        """`in_force` with the edits applied."""
        return self._activate(log).shown

    def uncollapsed(self, log: Sequence[Message]) -> AppendOnly[Message]:
        """The messages of `in_force` that are shown individually, as they are in the log."""
        return self._activate(log).uncollapsed

    def _activate(self, log: Sequence[Message]) -> _Active:
        known = self._active
        if known is not None and known.log is log:
            return known
        log = as_append_only(log)
        if known is None or not known.log.begins(log):
            return self._search(log)
        new = log[len(known.log) :]
        if not new:
            return known
        if any(message.origin is Origin.BOUNDARY for message in new):
            return self._search(log)
        in_force = log if known.in_force is known.log else known.in_force.adding(*new)
        shown = in_force if known.shown is known.in_force else known.shown.adding(*self.one_by_one(new))
        single = in_force if known.uncollapsed is known.in_force else known.uncollapsed.adding(*new)
        self._active = _Active(log, in_force, shown, single)
        return self._active

    def _search(self, log: AppendOnly[Message]) -> _Active:
        whole: Sequence[Message] = _leave_out_undone(log, self._undone) if self._undone else log
        in_force: Sequence[Message] = whole
        torn: set[str] = set()
        for index in range(len(whole) - 1, -1, -1):
            if whole[index].origin is Origin.BOUNDARY:
                if is_whole(whole, index):
                    in_force = whole[index + 1 :]
                    break
                torn.update(map(str, whole[index].meta[WRITTEN]))
        made = as_append_only(_leave_out(in_force, torn) if torn else in_force)
        if len(self._edited) > len(made):  # Most entries belong to messages before a compaction.
            for id in self._edited.keys() - {message.id for message in made}:
                self._edited[id] = _EditedMessage(self._edited[id].edits)
        shown = as_append_only(self.shown(made))
        single = made
        if self._collapses:
            ids = {message.id for message in shown}
            single = AppendOnly(message for message in made if message.id in ids)
        active = _Active(log, made, shown, single)
        # An incomplete boundary may become complete with the next message.
        self._active = None if torn else active
        return active

    def boundary(self, log: Sequence[Message]) -> Message | None:
        """The last valid compact boundary."""
        return next(self.boundaries(log), None)

    def boundaries(self, log: Sequence[Message]) -> Iterator[Message]:
        """All valid compact boundaries, latest first."""
        if self._undone:
            log = _leave_out_undone(log, self._undone)
        places = range(len(log) - 1, -1, -1)
        return (log[i] for i in places if log[i].origin is Origin.BOUNDARY and is_whole(log, i))

    def shown(self, messages: Sequence[Message]) -> Sequence[Message]:
        if not self._edited and not self._collapses:
            return messages
        if self._collapses:
            messages = self._collapse(messages)
        return self.one_by_one(messages)

    def one_by_one(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        return tuple(self._show_one(message) if message.id in self._edited else message for message in messages)

    def collapsed(self, messages: Sequence[Message], first: str) -> tuple[Message, ...]:
        """The messages collapsed into the one that begins with `first`; empty if it is not collapsed."""
        edit = self._collapses.get(first)
        ids = [message.id for message in messages]
        if edit is None or first not in ids:
            return ()
        begin = ids.index(first)
        end = ids.index(edit.through, begin) if edit.through in ids[begin:] else len(ids) - 1
        return tuple(messages[begin : end + 1])

    def _forget(self, target: str) -> None:
        collapse = self._collapses.pop(target, None)
        if collapse is not None:
            self._restored[target] = collapse.through
        self._undone.pop(target, None)
        message_id, _colon, number = target.rpartition(":")
        if number.isdigit() and message_id in self._edited:
            if edits := self._other_edits(message_id, int(number)):
                self._edited[message_id] = _EditedMessage(edits)
            else:
                del self._edited[message_id]

    def _other_edits(self, message_id: str, number: int) -> tuple[ContextEdit, ...]:
        edited = self._edited.get(message_id)
        return () if edited is None else tuple(edit for edit in edited.edits if _number(edit) != number)

    def _show_one(self, message: Message) -> Message:
        edited = self._edited[message.id]
        if edited.message is message and edited.shown is not None:
            return edited.shown
        by_number = {_number(edit): edit for edit in edited.edits}
        content = [
            block if (edit := by_number.get(number)) is None else _apply_edit(block, edit)
            for number, block in enumerate(message.content)
        ]
        edited.message, edited.shown = message, leave_out(message, content)
        return edited.shown

    def _collapse(self, messages: Sequence[Message]) -> list[Message]:
        shown: list[Message] = []
        until = ""
        places = {message.id: place for place, message in enumerate(messages)}
        for place, message in enumerate(messages):
            if until:
                until = "" if message.id == until else until
                continue
            edit = self._collapses.get(message.id)
            if edit is None or places.get(edit.through, -1) < place:
                # The end is missing (a line of the file was lost): show the span in full rather than lose what follows.
                shown.append(message)
                continue
            known = self._spans.get(message.id)
            if known is None or known[0] != edit:
                stand_in = Message("user", (TextBlock(edit.text),), f"{COLLAPSED}{message.id}", Origin.SUMMARY)
                known = self._spans[message.id] = (edit, stand_in)
            shown.append(known[1])
            until = "" if edit.through == message.id else edit.through
        return shown


def is_whole(log: Sequence[Message], place: int) -> bool:
    """Whether all messages of the boundary at this place were written. If not (a crash between two lines of the session
    file), the boundary does not count: the messages it replaces would be lost."""
    written = log[place].meta.get(WRITTEN)
    if not isinstance(written, list):
        return True
    return [message.id for message in log[place + 1 : place + 1 + len(written)]] == written


def _leave_out(messages: Sequence[Message], torn: set[str]) -> tuple[Message, ...]:
    return tuple(message for message in messages if message.id not in torn)


def _number(edit: ContextEdit) -> int:
    return int(edit.target.rpartition(":")[2])


def _apply_edit(block: Block, edit: ContextEdit) -> Block | None:
    if edit.kind == "drop":
        return None
    if isinstance(block, ToolResultBlock):
        return replace(block, content=(TextBlock(edit.text),))
    return TextBlock(edit.text) if isinstance(block, TextBlock | ImageBlock) else block


def _leave_out_undone(log: Sequence[Message], undone: Mapping[str, str]) -> list[Message]:
    places = {message.id: place for place, message in enumerate(log)}
    gone: set[int] = set()
    for boundary, through in undone.items():
        first, last = places.get(boundary, -1), places.get(through, -1)
        if first >= 0 <= last - first:
            gone.update(range(first, last + 1))
        elif first >= 0:
            # The end is missing (a line of the file was lost): remove only what the boundary itself names.
            written = log[first].meta.get(WRITTEN)
            gone.add(first)
            gone.update(places[id] for id in written or () if id in places)
    return [message for place, message in enumerate(log) if place not in gone]
