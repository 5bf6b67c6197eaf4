"""Notes for the model about undos and redos, so that it does not rely on outdated file contents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Literal

from agentcli.core.frozen import frozen
from agentcli.core.messages import NOTE, SAID, Message, Origin, user_message
from agentcli.core.text.plaintext import plain_line
from agentcli.tools.files.disk import load_blocking
from agentcli.tools.files.read_cache import ReadCache, digest_of
from agentcli.workspace.base import UndoNews

COMMAND_FAILED = "command_failed"
"""End reason of a command that failed."""
_MAX_NAMED = 20
_MAX_PROMPT = 80


@frozen
class UserActionNote:
    """A note to the model about an action of the user."""

    about: Literal["shell", "undo"]
    text: str

    def message(self, id: str) -> Message:
        return user_message(self.text, id, Origin.ATTACHMENT, {NOTE: {"about": self.about}})


def undo_note(news: Sequence[UndoNews], log: Sequence[Message]) -> UserActionNote:
    """One note about all undos and redos. `log`: the messages in which the prompts are found."""
    parts = []
    for is_restore, again in product((False, True), repeat=2):
        some = [one for one in news if (one.is_restore, one.again) == (is_restore, again)]
        if not some:
            continue
        texts = [text for one in some for text in prompts_of_submission(log, one.prompt_id)]
        quoted = [f"“{plain_line(text, _MAX_PROMPT)}”" for text in texts]
        about = f" for {' and '.join(quoted)}" if quoted else " for an earlier request"
        if is_restore:
            was = "put files back to an earlier state" if again else "took back that files were put back"
            parts.append(f"The user {was}.")
        elif again:
            parts.append(f"The user took the undo back: the changes that you made to files{about} are there again.")
        else:
            parts.append(f"The user undid the changes that you made to files{about}.")
        merged = [path for one in some for path in one.merged]
        whole = "Changed" if is_restore else "Changed again" if again else "As before"
        gone = "Gone" if is_restore else "Deleted again" if again else "Gone again"
        for label, paths in (
            (whole, [path for one in some for path in one.restored if path not in merged]),
            (f"{whole}, except that the user's own changes stay", merged),
            (gone, [path for one in some for path in one.deleted]),
            ("Left as they are", [path for one in some for path in one.kept]),
        ):
            if paths:
                parts.append(f"{label}: {_name_files(list(dict.fromkeys(paths)))}.")
    parts.append("Read a file again before you rely on what you know of it.")
    return UserActionNote("undo", f"[{' '.join(parts)}]")


def prompts_of_submission(messages: Sequence[Message], prompt_id: str) -> list[str]:
    """Texts of the prompt that began a submission and of those that joined it while it ran: an undo reverts the changes
    made for all of them. Empty if the prompt is not in the log."""
    begin = next((place for place, message in enumerate(messages) if message.id == prompt_id), None)
    if begin is None:
        return []
    texts = [messages[begin].text]
    for message in messages[begin + 1 :]:
        if message.origin is Origin.PROMPT and not message.is_copy:
            break
        if message.origin is Origin.QUEUED and not message.is_copy and SAID not in message.meta:
            texts.append(message.text)
    return texts


def forget_changed(paths: Iterable[str], cache: ReadCache) -> None:
    """Forget what the model saw of these files, except those that are unchanged. Blocking."""
    for path in paths:
        seen = cache.seen(path)
        if seen is not None and _digest(path) != seen.digest:
            cache.forget(path)


def _digest(path: str) -> str | None:
    try:
        return digest_of(load_blocking(path))
    except OSError:
        return None


def _name_files(paths: Sequence[str]) -> str:
    shown = ", ".join(plain_line(path, 300) for path in paths[:_MAX_NAMED])
    return shown if len(paths) <= _MAX_NAMED else f"{shown} and {len(paths) - _MAX_NAMED} more"
