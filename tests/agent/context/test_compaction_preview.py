"""What the user sees of a compaction: numbers that add up, each file once, no internal text."""

from __future__ import annotations

import json
import re
from contextlib import aclosing
from pathlib import Path

import pytest

from agentcli.core import events as ev
from agentcli.core.permission import Answer, PermissionMode
from agentcli.session.base import history_of
from agentcli.tui.resume import replay
from tests.support.assembled import Assembled
from tests.support.scripts import call, reply

pytestmark = pytest.mark.anyio
TOLD = reply("Part of a long story. " * 900, usage={"input_tokens": 14_000, "output_tokens": 4_500})


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "app.py").write_text("the only line\n")
    (folder / "link.py").symlink_to("src/app.py")
    return folder


async def compact(session: Assembled) -> ev.CompactionProposed:
    """Compact with a preview, and accept it."""
    proposed: list[ev.CompactionProposed] = []
    async with aclosing(session.engine.compact(review=True)) as stream:
        async for event in stream:
            session.events.append(event)
            if isinstance(event, ev.CompactionProposed):
                proposed.append(event)
                session.engine.answer(event.request_id, Answer("allow"))
    return proposed[0]


def tokens_in(lines: list[str]) -> int:
    found = [re.search(r"\(about ([\d,]+) tokens\)$", line) for line in lines]
    return sum(int(match.group(1).replace(",", "")) for match in found if match is not None)


def story(project: Path) -> list[object]:
    question = {"question": "Which?", "header": "Which", "options": [{"label": "A"}, {"label": "B"}]}
    todos = [{"content": "Paint it", "status": "pending"}]
    return [
        reply(
            call("Read", file_path="src/app.py"),
            call("Read", file_path=str(project / "src" / "app.py")),
            call("Read", file_path="link.py"),
            call("Read", file_path="./src/../src/app.py"),
        ),
        reply(call("AskUserQuestion", questions=[question]), call("TodoWrite", todos=todos)),
        TOLD,
        TOLD,
    ]


def answered(event: ev.PermissionRequested) -> Answer:
    if event.name == "AskUserQuestion":
        return Answer("allow", updated_input={**event.input, "answers": {"Which?": "A, because"}})
    return Answer("deny", message="Not now.")


async def test_kept_removed_and_added_parts_are_listed_with_their_tokens(project: Path) -> None:
    denied = reply(call("Bash", command="touch x"))
    replies = [*story(project), "Summary one.", denied, TOLD, TOLD, "Summary two."]
    async with Assembled(project, replies, answered) as session:  # type: ignore[arg-type]
        await session.run("begin with @src/app.py")
        await session.run("go on")
        first = await compact(session)
        await session.run("more")
        await session.run("and more")
        second = await compact(session)
    for proposed in (first, second):
        lines = [*proposed.kept, *proposed.dropped]
        assert all(re.search(r"\(about [\d,]+ tokens\)$", line) for line in (*lines, *proposed.added))
        assert tokens_in([*proposed.kept, *proposed.added]) == pytest.approx(proposed.tokens_after, rel=0.15)
        assert tokens_in(proposed.kept[:1]) > 1_000, "the fixed part"
        assert 5_000 < tokens_in([line for line in proposed.dropped if "model repl" in line]) < proposed.tokens_before
    assert any(line.startswith("3 messages of yours, word for word") for line in first.kept)
    assert not any(" prompt" in line and "system" not in line for line in first.dropped)


async def test_a_file_is_attached_once_however_it_was_spelled(project: Path) -> None:
    async with Assembled(project, [*story(project), "A summary.", "Fine."], answered) as session:  # type: ignore[arg-type]
        await session.run("begin")
        await session.run("go on")
        proposed = await compact(session)
        await session.run("and now?")
        sent = json.dumps(session.requests[-1]["messages"])
    assert sent.count("1\\tthe only line") == 1
    assert sum("app.py" in line or "link.py" in line for line in proposed.added) == 1


async def test_the_transcript_shows_the_summary_without_instructions_to_the_model(project: Path) -> None:
    options = {"permission_mode": PermissionMode.DEFAULT}
    replies = [*story(project), "# Intent\n\nFind the bug.", "Fine."]
    async with Assembled(project, replies, answered, options) as session:  # type: ignore[arg-type]
        await session.run("begin")
        await session.run("go on")
        await compact(session)
        items = replay(history_of(session.log), session.engine.title_of)
    texts = [str(getattr(item, "text", "")) for item in items]
    assert "# Intent\n\nFind the bug." in texts
    assert any(text.startswith("Kept in the context: the todos, ") for text in texts)
    for internal in ("hand-over", "<user_message>", "The model was told", "so that it need not be read again", "Go on"):
        assert not any(internal in text for text in texts), internal
