"""Requests are rebuilt from the session file, equal to what was sent, and proven by their digests."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcli.agent.context.control import ContextEffect
from agentcli.agent.profile import Profile
from agentcli.core.errors import AgentError
from agentcli.core.messages import Json
from agentcli.history.sent_requests import OpenedStep, describe_changes, describe_proof, digest_texts, open_step
from agentcli.providers.catalog import Catalog
from agentcli.session.base import Rewind
from agentcli.session.timeline import read_timeline
from tests.support.fakes import MODEL, Bench, FakeTool, collect
from tests.support.recorded import recorded, recorded_again, session_file
from tests.support.scripts import call_with_id, fails, fault, reply, think

pytestmark = pytest.mark.virtual


def opened(folder: Path, b: Bench) -> list[OpenedStep]:
    timeline = read_timeline(session_file(folder))
    texts = digest_texts([*b.engine.profile.system, *b.engine.session.requests.tools])
    return [open_step(timeline, step, texts) for step in timeline.requests() if step.purpose == "turn"]


def bodies(steps: list[OpenedStep]) -> list[Json]:
    return [step.sent.body(Catalog()) for step in steps]


async def test_every_request_is_rebuilt_exactly(tmp_path: Path) -> None:
    """Retries, calls, thinking, a compaction and a rewind in another process: the bodies equal those that were sent."""
    counted = reply("One. " * 2000)
    b = recorded(
        tmp_path,
        counted,
        reply(think("Hm.", "signature"), call_with_id("toolu_1", "Look", what="a"), fault("drop")),
        fails(529),
        reply(think("Hm.", "signature"), call_with_id("toolu_2", "Look", what="b")),
        "Two.",
        "<summary>They counted.</summary>",
        "Three.",
        tools=[FakeTool()],
    )
    async with b.engine:
        await collect(b.engine.submit("one"))
        await collect(b.engine.submit("two"))
        await collect(b.engine.compact())
        await collect(b.engine.submit("three"))
    sent = [body for place, body in enumerate(b.requests) if place not in (2, 5)]  # not the 529, not the compaction
    steps = opened(tmp_path, b)
    assert [step.sent.doubts for step in steps] == [()] * 5
    assert bodies(steps) == sent
    assert all(describe_proof(one.sent, one.step).startswith("Proven") for one in steps)
    assert describe_changes(steps[0]) == ["This is the first request of the conversation."]
    assert describe_changes(steps[2]) == ["0 new messages after 3 unchanged"]
    assert describe_changes(steps[3]) == ["2 new messages after 3 unchanged"]
    assert describe_changes(steps[4])[0].startswith("changed: the message “one”")

    second = read_timeline(session_file(tmp_path)).current[1]
    again = recorded_again(tmp_path, "Other.", rewind=Rewind(before=second.id), tools=[FakeTool()])
    await again.once("other")
    last = opened(tmp_path, again)[-1]
    assert (last.sent.doubts, last.sent.body(Catalog())) == ((), again.requests[-1])
    assert [message.text for message in again.engine.messages][-1] == "".join(block.text for block in last.response)  # type: ignore[union-attr]


async def test_edits_of_old_content_count(tmp_path: Path) -> None:
    look = [call_with_id(f"toolu_{number}", "Look", what="x" * 500) for number in range(3)]
    b = recorded(tmp_path, reply(*look), "Two.", "Three.", tools=[FakeTool()])
    async with b.engine:
        await collect(b.engine.submit("one"))
        item = next(one.id for one in b.engine.context.items() if one.id.startswith(b.engine.messages[2].id))
        assert isinstance(b.engine.context.drop(item), ContextEffect)
        await collect(b.engine.submit("two"))
    steps = opened(tmp_path, b)
    assert (bodies(steps), [step.sent.doubts for step in steps]) == (b.requests, [()] * 3)
    assert describe_changes(steps[2])[0].startswith("changed: ")


async def test_what_cannot_be_proven_is_named(tmp_path: Path) -> None:
    b = recorded(tmp_path, "One.", tools=[FakeTool()])
    await b.once("one")
    timeline = read_timeline(session_file(tmp_path))
    [step] = timeline.requests()
    other = digest_texts(["Be bad.", {"name": "Look"}])
    assert open_step(timeline, step, other).sent.doubts == (
        "the text of the system prompt has changed since",
        "the definitions of Look have changed since",
    )
    file = session_file(tmp_path)
    file.write_bytes(file.read_bytes().replace(b'"text":"one"', b'"text":"two"'))
    texts = digest_texts([*b.engine.profile.system, *b.engine.session.requests.tools])
    found = open_step(timeline, step, texts)
    assert found.sent.doubts == ("the messages differ from what was sent",)
    assert describe_proof(found.sent, step) == "Not proven: the messages differ from what was sent."


async def test_a_damaged_file_is_an_error_that_is_shown(tmp_path: Path) -> None:
    b = recorded(tmp_path, reply(call_with_id("toolu_1", "Look", what="a")), "Done.", tools=[FakeTool()])
    await b.once("one")
    file = session_file(tmp_path)
    file.write_bytes(file.read_bytes().replace(b'"id":"toolu_1"', b'"id":7'))
    timeline = read_timeline(file)
    last = [*timeline.requests()][-1]
    with pytest.raises(AgentError, match="is damaged"):
        open_step(timeline, last, {})


async def test_parameters_and_the_output_limit_are_part_of_the_proof(tmp_path: Path) -> None:
    profile = Profile(model=MODEL, small_model="small", effort="low", system=("Be good.",), output_cap=1000)
    b = recorded(tmp_path, reply("A long", stop_reason="max_tokens"), "A long story.", "Two.", profile=profile)
    async with b.engine:
        await collect(b.engine.submit("one"))
        b.engine.set_effort("high")
        await collect(b.engine.submit("two"))
    steps = opened(tmp_path, b)
    assert (bodies(steps), [step.sent.doubts for step in steps]) == (b.requests, [()] * 3)
    assert describe_changes(steps[1])[0] == "changed: the output limit: 1,000 → 64,000 tokens"
    assert "changed: the effort: it was changed from low to high" in describe_changes(steps[2])


async def test_secrets_are_not_shown(tmp_path: Path) -> None:
    b = recorded(tmp_path, "One.")
    key = "sk-" + "a1" * 20
    await b.once(f"My key is {key}")
    [step] = opened(tmp_path, b)
    assert step.sent.doubts == ()
    assert key in str(b.requests[0])
    assert key not in str(step.sent.body(Catalog()))
    assert "My key is …" in str(step.sent.body(Catalog()))
