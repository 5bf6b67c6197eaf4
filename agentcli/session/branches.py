"""The branches of a session while it is read: where each prompt begins, and the conversations that rewinds have left.

A rewind (`Rewind`) removes nothing from the file. It continues the conversation elsewhere, and the one it left stays a
branch to which a later rewind can return.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agentcli.core.frozen import frozen
from agentcli.core.messages import Json

if TYPE_CHECKING:
    from agentcli.session.load import LoadedSession

_LISTS = ("messages", "redactions", "edits", "seen", "history")
"""Lists of a session that a rewind cuts."""
_VALUES = ("pinned", "directory", "leaf")
"""Values of a session that a rewind sets."""


@frozen
class _Place:
    """Where a prompt begins: the lengths of the lists, and the values, before it."""

    lengths: Mapping[str, int]
    values: Mapping[str, Any]


@frozen
class _Branch:
    """A conversation as a rewind left it."""

    lists: Mapping[str, list[Any]]
    values: Mapping[str, Any]
    prompts: dict[str, _Place]


class Branches:
    def __init__(self, session: LoadedSession) -> None:
        self._session = session
        self._prompts: dict[str, _Place] = {}
        """By id, the prompts of the current branch."""
        self._left: dict[str, _Branch] = {}
        """By the id of the rewind that left it."""
        self.unknown = 0
        """Number of rewinds to a place that was not read."""

    def note_prompt(self, prompt_id: str) -> None:
        """Call before the prompt is added."""
        lengths = {name: len(getattr(self._session, name)) for name in _LISTS}
        self._prompts[prompt_id] = _Place(lengths, self._values())

    def go(self, record: Json, is_partial: bool) -> None:
        """Continue where a `rewind` record says. `is_partial`: the beginning of the file was not read, so that the
        place may be there."""
        before, branch = str(record.get("before", "")), str(record.get("branch", ""))
        lists = {name: list(getattr(self._session, name)) for name in _LISTS}
        self._left[str(record["uuid"])] = here = _Branch(lists, self._values(), dict(self._prompts))
        there = self._left.get(branch) if branch else here
        if there is not None and (not before or before in there.prompts):
            self._use(there)
            if before:
                self._cut(before)
            return
        self.unknown += 1
        if is_partial:
            self._use(_Branch({name: [] for name in _LISTS}, {"pinned": (), "directory": "", "leaf": None}, {}))

    def _values(self) -> dict[str, Any]:
        return {name: getattr(self._session, name) for name in _VALUES}

    def _use(self, branch: _Branch) -> None:
        for name in _LISTS:
            getattr(self._session, name)[:] = branch.lists[name]
        self._set(branch.values)
        self._prompts = dict(branch.prompts)

    def _cut(self, prompt_id: str) -> None:
        place = self._prompts[prompt_id]
        for name, length in place.lengths.items():
            del getattr(self._session, name)[length:]
        self._set(place.values)
        ids = list(self._prompts)
        for later in ids[ids.index(prompt_id) :]:
            del self._prompts[later]

    def _set(self, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            setattr(self._session, name, value)
