"""What the user sees of a compaction: numbers that add up, each file once, no internal text."""

from __future__ import annotations

import json
import re
from contextlib import aclosing
from pathlib import Path

import pytest

from agentcli.context.compaction_preview import REST, RequestTokens, Share, Shares
from agentcli.core import events as ev
from agentcli.core.permission import Answer, PermissionMode
from agentcli.session.history import history_of
from agentcli.tui.resume import replayed
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


async def test_kept_and_removed_tokens_add_up_to_the_whole(project: Path) -> None:
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
        assert tokens_in(lines) == proposed.tokens_before
        assert tokens_in([*proposed.kept, *proposed.added]) == proposed.tokens_after
        assert tokens_in([line for line in proposed.kept if line.startswith(REST)]) > 1_000
        assert not any("(about -" in line for line in (*lines, *proposed.added))
        assert proposed.tokens_before > 14_000
        assert 5_000 < tokens_in([line for line in proposed.dropped if "model repl" in line]) < proposed.tokens_before
    assert any(line.startswith("3 messages of yours, word for word") for line in first.kept)
    assert not any(" prompt" in line and "system" not in line for line in first.dropped)


@pytest.mark.parametrize("before", [0, 7, 6_000, 20_000, 90_000])
@pytest.mark.parametrize("density", [0.4, 1.0, 2.5])
async def test_the_fixed_part_keeps_its_share_for_any_token_count_of_the_server(before: int, density: float) -> None:
    shares = Shares(
        (Share("words", 300),), (Share("replies", 9_000), Share("results", 4_000)), (Share("summary", 500),)
    )
    after = 5_000 + round(900 * density)
    kept, gone, added = shares.lines(RequestTokens(before, after, 5_000), density)
    assert tokens_in([*kept, *gone]) == before
    assert tokens_in([*kept, *added]) == after
    assert "-" not in "".join((*kept, *gone, *added))
    if before >= 20_000:
        assert tokens_in(kept[:1]) >= 2_000


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
        items = replayed(history_of(session.log), session.engine.title_of)
    texts = [str(getattr(item, "text", "")) for item in items]
    assert "# Intent\n\nFind the bug." in texts
    assert any(text.startswith("Kept in the context: the todos, ") for text in texts)
    for internal in ("hand-over", "<user_message>", "The model was told", "so that it need not be read again", "Go on"):
        assert not any(internal in text for text in texts), internal


@pytest.mark.parametrize("counted", [10, 2_500, 5_000])
async def test_a_server_that_counts_fewer_tokens_than_estimated_has_all_parts_scaled_alike(
    project: Path, counted: int
) -> None:
    (project / "src" / "app.py").write_text("x = 1\n" * 400)
    usage = {"input_tokens": counted, "output_tokens": counted // 2}
    told = reply("Part of a long story. " * 900, usage=usage)
    replies = [reply(call("Read", file_path="src/app.py"), usage=usage), told, told, "A summary."]
    async with Assembled(project, replies) as session:  # type: ignore[arg-type]
        await session.run("begin")
        await session.run("go on")
        row = session.engine.costs.spending.tools["Read"]
        items = session.engine.context.items()
        proposed = await compact(session)
        after = session.engine.context.outlook().tokens
    results = sum(item.tokens for item in items if item.category == "results")
    assert sum(item.tokens for item in items) == proposed.tokens_before == counted + counted // 2
    assert row.in_context == pytest.approx(results, rel=0.2, abs=1)
    assert row.sent_tokens < 2 * counted
    assert tokens_in([*proposed.kept, *proposed.dropped]) == proposed.tokens_before
    assert tokens_in([*proposed.kept, *proposed.added]) == proposed.tokens_after == after
    assert proposed.tokens_after < proposed.tokens_before
    file_before = tokens_in([line for line in proposed.dropped if "result" in line])
    file_after = tokens_in([line for line in proposed.added if "app.py" in line])
    assert file_after == pytest.approx(file_before, rel=0.2, abs=1)
