"""/blame: which prompt and call wrote each line of a file."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

from agentcli.agent.engine import Engine
from agentcli.commands.front_end import FrontEnd
from agentcli.config.paths import Paths
from agentcli.core.errors import UsageError
from agentcli.history.blame import LineOrigin
from agentcli.history.blame_text import BlameText, mark_origin, read_blame
from agentcli.history.steps import Step, StepAction, StepChoice, StepList, StepTab, StepText

_MAX_ROWS = 2_000


async def run(engine: Engine, arguments: str, front_end: FrontEnd) -> str | None:
    """Shows for each line of a file the prompt and the call that wrote it, with model, time and cost, or that it is
    yours. It reads the snapshots of all sessions; commits, undo and lines that move do not matter.

    /blame src/parser.py        all lines
    /blame src/parser.py:10-20  these lines
    """
    state_dir = Paths.from_environ(engine.session.environ or os.environ).state_dir
    if not arguments or state_dir is None:
        raise UsageError("Name a file: /blame src/parser.py or /blame src/parser.py:10-20.")
    text = await read_blame(arguments, engine.root, state_dir)
    if not front_end.has_pages:
        return "\n".join(text.format(shutil.get_terminal_size().columns - 2))
    if len(text.lines) > _MAX_ROWS:
        raise UsageError(f"The file has more than {_MAX_ROWS:,} lines. Name some: /blame {arguments}:1-{_MAX_ROWS}.")

    def is_elsewhere(step: Step) -> bool:
        change = step.value.change
        return change is not None and change.session_id != engine.session_id

    page = StepList(
        f"Blame of {text.blame.path.name}",
        lambda: list(_make_steps(text)),
        [StepTab("Written by", lambda step: _show_origin(text, step.value))],
        [StepAction("o", "open its session", applies=is_elsewhere)],
        start=str(text.first),
        empty="The file is empty.",
        noun="line",
    )
    choice: StepChoice | None = await front_end.page("steps", page)
    if choice is not None:
        await front_end.open_session(choice.step.value.change.session_id)
    return None


def _make_steps(text: BlameText) -> Iterator[Step]:
    digits, before = len(str(text.last)), None
    for number, (line, origin) in enumerate(text.lines, text.first):
        author = "" if origin is before else mark_origin(origin)
        yield Step(str(number), line or " ", author, f"{number:>{digits}} │ ", value=origin)
        before = origin


def _show_origin(text: BlameText, origin: LineOrigin) -> list[StepText]:
    same = [one for _line, one in text.lines if one is origin]
    shown = StepText(lambda width: "\n".join(text.explain(same, width)))
    call = None if origin.change is None else origin.change.call
    return [shown, StepText(call.diff, "diff")] if call is not None and call.diff else [shown]
