"""The end of a conversation that is gone on with, shown long before all of it is read."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.core.messages import Json
from agentcli.tui.model import AnswerItem, Item

if TYPE_CHECKING:
    from agentcli.agent.engine import Engine

NEAR_THE_END = 12
_FENCE = re.compile(r"^ {0,3}(?:```|~~~)+ *([A-Za-z0-9_+#.-]+)", re.MULTILINE)


def past_of(engine: Engine) -> list[Item]:
    """What a conversation shows, to be opened with. For a thread: it also counts the tokens of all messages, which the
    engine keeps, and loads the languages that will be in view."""
    from agentcli.tui.blocks.highlight import warm
    from agentcli.tui.resume.replay import replayed

    items = replayed(engine.take_history(), engine.title_of)
    engine.context.outlook()
    warm({language for text in _answers(items) for language in _FENCE.findall(text)})
    return items


def end_of_session(state_dir: Path, cwd: Path, resume: str) -> list[Item]:
    """Of the session that `--resume` means, or with "" of the latest one; nothing if it is not clear which that is. For
    a thread: it also loads what the items are laid out with. Answers look as if they were being written: code in them
    does not wait for its colours, which take 50 ms to load."""
    from agentcli.session.find import find, latest
    from agentcli.session.load import load_end_of_history
    from agentcli.tui.blocks.markdown import load_parser
    from agentcli.tui.resume.replay import replayed

    newest = latest(state_dir, cwd) if not resume else None
    found = find(state_dir, cwd, resume) if resume else [newest] if newest is not None else []
    if len(found) != 1:
        return []
    try:
        items = replayed(load_end_of_history(found[0].path), _title, "end-")
    except OSError:
        return []
    if _answers(items):
        load_parser()
    return [replace(item, done=False) if isinstance(item, AnswerItem) else item for item in items]


def _title(name: str, input: Json) -> str:
    """What most tools say about a call; they themselves are not there yet."""
    return f"{name} {next((value for value in input.values() if isinstance(value, str)), '')}".strip()


def _answers(items: list[Item]) -> list[str]:
    """Those that may be in view."""
    return [item.text for item in items[-NEAR_THE_END:] if isinstance(item, AnswerItem)]
