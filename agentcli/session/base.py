"""The contract between the engine and whatever keeps its conversation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from agentcli.core.events import Event
from agentcli.core.frozen import frozen
from agentcli.core.ids import Clock, Ids
from agentcli.core.messages import Json


@frozen
class Workplace:
    """Where sessions are written, and what is written into every line."""

    state_dir: Path
    cwd: Path
    clock: Clock
    ids: Ids
    version: str


class Store(Protocol):
    """Nothing here raises for an I/O error: saving goes wrong beside the work, never in its way."""

    @property
    def session_id(self) -> str: ...

    @property
    def path(self) -> Path | None:
        """The session file; None when nothing is kept. It need not exist before the first record."""
        ...

    @property
    def problem(self) -> str | None:
        """A sentence while the conversation is not being saved."""
        ...

    def record(self, event: Event) -> None:
        """Keep what belongs into the session; all other events are ignored. Call it before anybody sees the event.

        A reply whose blocks were recorded ends with `MessageAppended` or `ReplyTombstoned`; one that has seen
        neither when another reply begins, a message is added or the submission ends is taken as void.
        """
        ...

    def set_title(self, title: str) -> None: ...

    def set_system_context(self, text: str) -> None:
        """What a resumed session must put into its system prompt again, byte for byte."""
        ...

    def set_user_context(self, text: str, sources: Mapping[str, str], boundary: str = "") -> None:
        """The same for what stands before all messages, from the compact boundary with this id on. `sources`: what it
        was made from, files with their digests."""
        ...

    def note_seen(self, files: Json) -> None:
        """What the model has seen of files and was not noted before, by path; None for one that is forgotten."""
        ...

    def note_front(self, front: Json) -> None:
        """How requests begin from now on, without its texts: what a resumed session compares its own with. Written only
        when it is another one."""
        ...

    def results_dir(self) -> Path | None:
        """A private folder for large tool output, made on demand; None when nothing may be written."""
        ...

    def sync(self) -> None:
        """Force to disk: at turn ends. Takes a fraction of a millisecond on a local disk, and blocks."""
        ...

    def take_notice(self) -> str | None:
        """The next sentence for the person about saving, once each; None when there is nothing to say."""
        ...

    def close(self) -> None: ...
