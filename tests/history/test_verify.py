"""Recorded sessions are replayed through the real loop: every event and request must be the recorded one."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentcli.agent.loop import run_loop, wording
from agentcli.agent.loop.decide import LoopDecision, TurnOutcome, decide
from agentcli.agent.loop_state import Continue, EndReason, Limits, LoopState, Stop
from agentcli.agent.profile import ConversationRequests
from agentcli.core.errors import AgentError
from agentcli.core.messages import Json
from agentcli.history.replay import compare as comparing
from agentcli.history.replay import process
from agentcli.history.replay.compare import compare, explain, replace_instructions
from agentcli.history.replay.process import ReplayChanges
from agentcli.history.replay.verify import describe, read_session, verify
from agentcli.providers.base import Request
from agentcli.session.base import encode_line
from tests.support.record_sessions import FOLDER, SCENARIOS, Desk, record
from tests.support.scripts import fails

pytestmark = pytest.mark.anyio


def records_of(name: str) -> list[Json]:
    return read_session(FOLDER / f"{name}.jsonl")


def test_there_is_a_recording_of_every_scenario() -> None:
    assert {path.stem for path in FOLDER.glob("*.jsonl")} == set(SCENARIOS)


@pytest.mark.parametrize("name", SCENARIOS)
async def test_the_loop_still_does_what_was_recorded(name: str) -> None:
    found = await verify(records_of(name))
    assert found.difference is None, "\n".join(describe(found))
    assert found.counts.events == found.events > 5
    assert found.counts.requests == found.requests > 0
    assert found.counts.apart == {}


def test_a_session_that_is_recorded_now_is_verified(tmp_path: Path) -> None:
    """What the loop records today is all that a replay needs: also requests whose texts are those of this version."""
    record("stop_hook", tmp_path / "now.jsonl")
    found = asyncio.run(verify(read_session(tmp_path / "now.jsonl")))
    assert (found.exit_code, found.counts.other_front) == (0, {})


async def test_another_decision_of_the_loop_is_the_first_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    def give_up(state: LoopState, outcome: TurnOutcome, limits: Limits) -> LoopDecision:
        decision = decide(state, outcome, limits)
        return Stop(EndReason.COMPLETED) if isinstance(decision, Continue) and outcome.overrun else decision

    monkeypatch.setattr(run_loop, "decide", give_up)
    found = await verify(records_of("output_limit"))
    assert (found.exit_code, found.difference is None) == (1, False)
    text = "\n".join(describe(found))
    assert "prompt 1 (“Tell a long story”), request 1" in text
    assert "now type: submission-end" in text


def changed(
    records: list[Json], old: str, new: str, change: Callable[[Json], bool] = lambda _record: True
) -> list[Json]:
    texts = [json.dumps(record) for record in records]
    return [
        json.loads(text.replace(old, new)) if change(record) else record
        for text, record in zip(texts, records, strict=True)
    ]


async def test_another_prompt_than_the_one_that_was_sent_is_named() -> None:
    found = await verify(changed(records_of("plain_answers"), "What is two and two?", "What is two and three?"))
    assert found.difference is not None
    assert (found.difference.prompt, found.difference.request, found.difference.field) == (2, 2, "event.request")
    assert found.difference.prompt_text == "What is two and three?"
    assert "the messages" in "\n".join(describe(found))


async def test_the_request_that_differs_is_shown_next_to_the_recorded_one(monkeypatch: pytest.MonkeyPatch) -> None:
    build = ConversationRequests.build

    def build_another(self: ConversationRequests, *given: Any) -> Request:
        return replace(build(self, *given), effort="low", max_tokens=77)

    monkeypatch.setattr(ConversationRequests, "build", build_another)
    found = await verify(records_of("plain_answers"))
    assert found.difference is not None
    assert "differs in the model, its parameters, the tools or the system prompt" in found.difference.text
    parts = explain(FOLDER / "plain_answers.jsonl", found)
    assert parts == [("effort", "auto → low"), ("max tokens", "8192 → 77")]
    assert explain(FOLDER / "plain_answers.jsonl", replace(found, sent=None)) == []


async def test_another_text_of_the_loop_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wording, "OUTPUT_RECOVERY", "Go on.")
    found = await verify(records_of("output_limit"))
    assert found.difference is not None
    assert "recorded message.content[0].text: Your reply was cut off" in found.difference.text
    assert "now message.content[0].text: Go on." in found.difference.text


async def test_a_changed_system_prompt_is_counted_apart_and_named() -> None:
    def is_first(record: Json) -> bool:
        return "systemContext" in record

    found = await verify(changed(records_of("plain_answers"), "Where you are", "Where you were", is_first))
    assert found.exit_code == 0
    assert {what: len(numbers) for what, numbers in found.counts.other_front.items()} == {
        "part 2 of the system prompt": 2
    }
    assert "part 2 of the system prompt" in "\n".join(describe(found))


async def test_what_an_older_version_recorded_is_never_called_identical() -> None:
    older = [record for record in records_of("plain_answers") if record["type"] != "input"]
    found = await verify(older)
    assert (found.exit_code, found.events, found.counts.events) == (1, 0, 0)
    assert "without what a replay needs" in "\n".join(describe(found))
    assert "Nothing could be verified." in describe(found)


async def test_a_process_that_cannot_be_verified_does_not_keep_others_from_it() -> None:
    records = records_of("resumed")
    second = next(index for index, record in enumerate(records) if record["type"] == "resume")
    cut = [record for index, record in enumerate(records) if record["type"] != "input" or index > second]
    found = await verify(cut)
    assert found.exit_code == 0
    assert 0 < found.counts.events == found.events
    assert sum(found.counts.apart.values()) > 0


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ({"type": "input", "kind": "settings", "settings": {}}, "recorded after the settings were changed"),
        ({"type": "input", "kind": "budget", "dollars": 5}, "recorded after the budget was changed"),
        ({"type": "gap", "lost": 2}, "recorded after lines of the session were lost"),
        ({"type": "rewind", "added": "begin"}, "added as a whole by /what-if or /tree, or recorded after that"),
        ({"type": "shown", "event": {"event": "CompactionFailed"}}, "recorded after a compaction failed"),
    ],
)
async def test_what_a_process_recorded_after_a_change_is_counted_apart(line: Json, reason: str) -> None:
    records = records_of("plain_answers")
    second = [index for index, one in enumerate(records) if one.get("origin") == "prompt"][1]
    whole = await verify(records)
    found = await verify([*records[:second], line, *records[second:]])
    assert found.exit_code == 0
    assert (found.requests, whole.requests) == (1, 2)
    assert found.counts.apart.keys() == {reason}
    assert any(text.startswith("Not verified: ") and text.endswith(f" {reason}") for text in describe(found))


async def test_a_line_that_is_missing_is_reported_instead_of_waited_for() -> None:
    records = records_of("stop_hook")
    gone = next(index for index, one in enumerate(records) if one.get("kind") == "stop-hook")
    found = await verify([*records[:gone], *records[gone + 1 :]])
    assert found.difference is not None
    assert found.difference.line == gone + 1


async def test_what_is_recorded_for_a_replay_has_no_secrets_and_is_verified(tmp_path: Path) -> None:
    """The error that the user sees has the secret, as before; the line for replays has not."""
    key = "sk-ant-api03-" + "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY" * 2
    desk = Desk(tmp_path)
    desk.project.mkdir()
    await desk.prompts([fails(400, f"The key {key} is wrong."), "Fine."], "Hi", "Again")
    records = read_session(desk.file())
    inputs = [json.dumps(record) for record in records if record["type"] == "input"]
    assert any('"failed"' in line for line in inputs)
    assert not any(key in line for line in inputs)
    found = await verify(records)
    assert found.difference is None, "\n".join(describe(found))


@pytest.mark.parametrize("seed", range(20))
async def test_a_damaged_file_has_a_result_or_a_reason_and_never_hangs(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "STALLED_SECONDS", 0.02)
    chance = random.Random(seed)
    records = records_of(chance.choice(list(SCENARIOS)))
    for _damage in range(3):
        record = records[chance.randrange(len(records))]
        name = chance.choice(list(record))
        if name != "type":
            record[name] = chance.choice([None, 1, "x", [], {}])
    del records[chance.randrange(len(records))]
    with suppress(AgentError):
        found = await verify(records)
        assert found.exit_code in (0, 1)
        assert describe(found)


def test_a_file_without_a_prompt_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_bytes(encode_line({"type": "session"}))
    with pytest.raises(AgentError, match="no prompt"):
        read_session(tmp_path / "empty.jsonl")
    with pytest.raises(AgentError, match="cannot be read"):
        read_session(tmp_path / "none.jsonl")


# ------------------------------------------------------------------------------------------------ other instructions


async def compared(name: str, changes: ReplayChanges) -> comparing.Compared:
    return await compare(records_of(name), changes)


async def test_without_a_change_no_request_differs() -> None:
    result = await compared("parallel_tools", ReplayChanges())
    assert (result.parts, result.requests, result.problem) == ((), 3, "")


async def test_a_session_without_what_a_replay_needs_is_not_called_equal() -> None:
    older = [record for record in records_of("plain_answers") if record["type"] != "input"]
    result = await compare(older, ReplayChanges(settings={"model": "claude-haiku-5-5"}))
    assert (result.requests, result.parts, result.to_dict()["identical"]) == (0, (), False)
    assert result.problem.startswith("No request can be compared: the session was recorded by agentcli ")
    assert result.problem.endswith(" without what a replay needs.")


@pytest.mark.parametrize(
    ("settings", "part", "text"),
    [
        ({"model": "claude-haiku-5-5"}, "model", "claude-sonnet-5-5 → claude-haiku-5-5"),
        ({"effort": "high"}, "effort", "auto → high"),
        ({"appendSystemPrompt": "Answer in French."}, "system prompt", "+Answer in French."),
    ],
)
async def test_the_first_request_that_would_differ_is_shown(settings: Json, part: str, text: str) -> None:
    result = await compared("plain_answers", ReplayChanges(settings=settings))
    assert result.requests == result.prompt == 1
    assert part in dict(result.parts)
    assert text in dict(result.parts)[part]


async def test_other_instructions_are_shown_as_a_difference_of_the_user_context() -> None:
    changes = ReplayChanges(replace_instructions("AGENTS.md", "Answer in French."))
    result = await compared("plain_answers", changes)
    assert [name for name, _text in result.parts] == ["user context"]
    assert "-Be kind." in result.parts[0][1]
    assert "+Answer in French." in result.parts[0][1]
    same = await compared("plain_answers", ReplayChanges(replace_instructions("AGENTS.md", "Be kind.")))
    assert same.parts == ()


def test_every_part_of_a_request_is_compared() -> None:
    request = Request("a", ({"role": "user", "content": [{"type": "text", "text": "Hi"}]},))
    more = {"role": "assistant", "content": [{"type": "text", "text": "Hello"}]}
    others = [
        replace(request, tools=({"name": "Read"},)),
        replace(request, messages=(*request.messages, more)),
        replace(request, messages=({"role": "user", "content": [{"type": "text", "text": "Bye"}]},)),
    ]
    parts = [[name for name, _text in comparing.list_differences(request, other)] for other in others]
    assert parts == [["tools"], ["messages"], ["user context"]]
