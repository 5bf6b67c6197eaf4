"""Tells the model about undos and redos, so that it does not rely on outdated file contents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from agentcli.core.frozen import frozen
from agentcli.core.messages import NOTE, Message, Origin, user_message
from agentcli.core.plaintext import plain_line
from agentcli.tools.files.disk import load_now
from agentcli.tools.files.read_cache import ReadCache, digest_of
from agentcli.workspace.base import UndoNews

COMMAND_FAILED = "command_failed"
"""End reason of a command that failed."""
_MOST_NAMED = 20
_LONGEST_PROMPT = 80


@frozen
class UserActionNote:
    """A note to the model about an action of the user."""

    about: Literal["shell", "undo"]
    text: str

    def message(self, id: str) -> Message:
        return user_message(self.text, id, Origin.ATTACHMENT, {NOTE: {"about": self.about}})


def undo_note(news: Sequence[UndoNews], prompts: Mapping[str, str]) -> UserActionNote:
    """One note about all undos and redos. `prompts`: texts by message id."""
    parts = []
    for again in (False, True):
        some = [one for one in news if one.again is again]
        if not some:
            continue
        quoted = [
            f"“{plain_line(prompts[one.prompt_id], _LONGEST_PROMPT)}”" for one in some if one.prompt_id in prompts
        ]
        about = f" for {' and '.join(quoted)}" if quoted else " for an earlier request"
        if again:
            parts.append(f"The user took the undo back: the changes that you made to files{about} are there again.")
        else:
            parts.append(f"The user undid the changes that you made to files{about}.")
        for label, paths in (
            ("Changed again" if again else "As before", [path for one in some for path in one.restored]),
            ("Deleted again" if again else "Gone again", [path for one in some for path in one.deleted]),
            ("Left as they are", [path for one in some for path in one.kept]),
        ):
            if paths:
                parts.append(f"{label}: {_named(list(dict.fromkeys(paths)))}.")
    parts.append("Read a file again before you rely on what you know of it.")
    return UserActionNote("undo", f"[{' '.join(parts)}]")


def forget_changed(paths: Iterable[str], cache: ReadCache) -> None:
    """Forget what the model saw of these files, except those that are unchanged. Blocking."""
    for path in paths:
        seen = cache.seen(path)
        if seen is not None and _digest(path) != seen.digest:
            cache.forget(path)


def _digest(path: str) -> str | None:
    try:
        return digest_of(load_now(path))
    except OSError:
        return None


def _named(paths: Sequence[str]) -> str:
    shown = ", ".join(plain_line(path, 300) for path in paths[:_MOST_NAMED])
    return shown if len(paths) <= _MOST_NAMED else f"{shown} and {len(paths) - _MOST_NAMED} more"
