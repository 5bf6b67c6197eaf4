"""Resuming a session: in another folder, with another model, with options that the model does not support."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentcli.agent.engine import Engine
from agentcli.agent.session import CHANGED_BEFORE
from agentcli.assemble import Options, build_engine
from agentcli.context.user_edits import ContextEffect
from agentcli.core import events as ev
from agentcli.core.errors import CredentialError
from agentcli.core.permission import PermissionMode
from tests.support.cacheserver import PromptCache, caching_transport
from tests.support.fakes import collect, only, result_of
from tests.support.scripts import call, provider_on, reply, transport_for

pytestmark = pytest.mark.anyio


class Home:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environ = {"HOME": str(folder / "home"), "PATH": "/usr/bin:/bin"}
        (folder / "home").mkdir()

    async def ask(self, where: str, *answers: Any, **options: Any) -> tuple[list[ev.Event], list[dict[str, Any]]]:
        """One prompt in a folder; the events, and the requests that were sent."""
        cwd = self.folder / where
        cwd.mkdir(exist_ok=True)
        transport = transport_for(*answers)
        given = {"sandbox": "off", **options}
        made = Options(cwd=cwd, environ=self.environ, provider=provider_on(transport), **given)
        async with build_engine(made) as engine:
            return await collect(engine.submit("hello")), transport.requests


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def session_of(events: list[ev.Event]) -> str:
    return result_of(events).session_id


async def test_resuming_in_another_folder_notifies_the_model_once_and_keeps_the_prefix(home: Home) -> None:
    events, first = await home.ask("one", "Hi.")
    extra = home.folder / "extra"
    extra.mkdir()
    resumed = {"resume": session_of(events)}
    _events, moved = await home.ask("two", "Moved.", **resumed, add_dirs=(extra,))
    assert moved[0]["system"] == first[0]["system"]
    last = moved[0]["messages"][-1]["content"]
    told = " ".join(block["text"] for block in last)
    assert f"Working directory: {home.folder / 'two'}" in told
    assert f"Further directory: {extra}" in told
    _events, again = await home.ask("two", "Still.", **resumed, add_dirs=(extra,))
    assert [block["text"] for block in again[0]["messages"][-1]["content"]] == ["hello"]
    _events, back = await home.ask("one", "Back.", **resumed)
    assert str(home.folder / "one") in str(back[0]["messages"][-1]["content"])


async def test_a_resumed_session_keeps_its_model_unless_another_is_requested(home: Home) -> None:
    events, first = await home.ask("one", "Hi.", model="haiku")
    _events, second = await home.ask("one", "Hi.", resume=session_of(events))
    _events, third = await home.ask("one", "Hi.", resume=session_of(events), model="sonnet")
    assert [r[0]["model"] for r in (first, second, third)] == ["claude-haiku-5-5"] * 2 + ["claude-sonnet-5-5"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"thinking": "disabled", "model": "opus"}, "always thinks"),
        ({"max_thinking_tokens": 5_000, "model": "opus"}, "always thinks"),
        ({"max_thinking_tokens": 60_000, "model": "claude-haiku-4-5"}, "is 55,808 tokens instead of 60,000"),
        ({"max_thinking_tokens": 100, "model": "claude-haiku-4-5"}, "is 1,024 tokens instead of 100"),
        ({"task_budget": 50_000, "model": "claude-haiku-4-5"}, "does not support a task budget"),
        ({"effort": "xhigh", "model": "claude-opus-4-5"}, "using 'high'"),
    ],
)
async def test_unsupported_options_are_reported(home: Home, options: dict[str, Any], said: str) -> None:
    events, _requests = await home.ask("one", "Hi.", **options)
    assert any(said in notice.text for notice in only(events, ev.NoticeRaised))


async def test_a_resumed_session_keeps_effort_and_thinking_unless_they_are_given(home: Home) -> None:
    chosen = {"model": "sonnet", "effort": "high", "thinking": "disabled"}
    events, (first,) = await home.ask("one", "Hi.", **chosen)
    _events, (second,) = await home.ask("one", "Hi.", resume=session_of(events))
    assert first["output_config"]["effort"] == "high"
    for part in ("model", "output_config", "thinking"):
        assert second[part] == first[part]
    again = {"effort": "low", "thinking": "adaptive"}
    _events, (third,) = await home.ask("one", "Hi.", resume=session_of(events), **again)
    assert (third["output_config"]["effort"], third["thinking"]["type"]) == ("low", "adaptive")
    _events, (fourth,) = await home.ask("one", "Hi.", resume=session_of(events), effort="auto")
    assert "output_config" not in fourth


async def test_a_failed_start_leaves_no_session_locked(home: Home) -> None:
    events, _requests = await home.ask("one", "Hi.")
    options = Options(cwd=home.folder / "one", environ=home.environ, resume=session_of(events), sandbox="off")
    with pytest.raises(CredentialError):
        build_engine(options)
    _events, requests = await home.ask("one", "Hi.", resume=session_of(events))
    assert len(requests) == 1


async def test_a_fork_and_its_resumed_session_read_the_stored_results_of_the_source(
    home: Home,
) -> None:
    events, _first = await home.ask("one", "Hi.")
    source = session_of(events)
    (log,) = (home.folder / "home").rglob(f"{source}.jsonl")
    moved = log.with_suffix("") / "tool-results" / "large.txt"
    moved.parent.mkdir(parents=True)
    moved.write_text("the whole result\n")
    stranger = log.parent / "00000000-0000-4000-8000-00000000dead" / "tool-results" / "large.txt"
    stranger.parent.mkdir(parents=True)
    stranger.write_text("of another session\n")
    look = reply(call("Read", file_path=str(moved)), call("Read", file_path=str(stranger)))
    forked, requests = await home.ask("one", look, "Read.", resume=source, fork_session=True)
    seen(requests)
    again, requests = await home.ask("one", look, "Read.", resume=session_of(forked))
    seen(requests)
    _events, requests = await home.ask("one", look, "Read.", resume=session_of(again), fork_session=True)
    seen(requests)
    _events, requests = await home.ask("one", look, "Read.", resume=source, persist=False)
    seen(requests)


def seen(requests: list[dict[str, Any]]) -> None:
    """The source's result was read, and the one of a session that is none of ours was not."""
    own, other = [block for block in requests[-1]["messages"][-1]["content"] if block["type"] == "tool_result"]
    assert "the whole result" in str(own["content"])
    assert other["is_error"]
    assert "of another session" not in str(other["content"])


# ------------------------------------------------------------------------------------- files that changed meanwhile


def last_texts(requests: list[dict[str, Any]]) -> str:
    return " ".join(block.get("text", "") for block in requests[0]["messages"][-1]["content"])


async def test_files_changed_between_sessions_are_reported_once_after_a_resume(home: Home) -> None:
    folder = home.folder / "one"
    folder.mkdir()
    for name in ("read.py", "same.py"):
        (folder / name).write_text("before\n")
    reads = [call("Read", file_path=str(folder / name)) for name in ("read.py", "same.py")]
    wrote = call("Write", file_path=str(folder / "made.py"), content="one\ntwo\n")
    allowed = {"permission_mode": PermissionMode.BYPASS}
    events, _first = await home.ask("one", reply(*reads, wrote), "Done.", **allowed)
    resumed = {"resume": session_of(events), **allowed}
    (folder / "read.py").write_text("after, by somebody\n")
    (folder / "made.py").write_text("one\n2\n")
    _events, second = await home.ask("one", "I see.", **resumed)
    told = last_texts(second)
    assert "read.py changed; what has changed cannot be shown, so read it again" in told
    assert "-two\n+2" in told
    assert "same.py" not in told
    _events, third = await home.ask("one", "Still.", **resumed)
    assert last_texts(third) == "hello"
    (folder / "read.py").unlink()
    _events, fork = await home.ask("one", "Gone.", **resumed, fork_session=True)
    assert "read.py is gone" in last_texts(fork)


async def test_context_edits_before_leaving_apply_after_a_resume(home: Home) -> None:
    """The size and the reasons for cache misses are the same as in a process that kept running."""
    story = "Part of a long story with words in it. " * 300
    cache = PromptCache()

    def engine(*replies: Any, **options: Any) -> Engine:
        (home.folder / "one").mkdir(exist_ok=True)
        provider = provider_on(caching_transport(*replies, cache=cache))
        options = {"cwd": home.folder / "one", "environ": home.environ, "sandbox": "off", **options}
        return build_engine(Options(provider=provider, **options))

    async with engine(story, story) as first:
        session = session_of(await collect(first.submit(f"one {story}")))
        await collect(first.submit("two"))
        item = next(item for item in first.context.items() if item.category == "prompts")
        assert isinstance(first.context.drop(item.id), ContextEffect)
        left = first.context.outlook()
    async with engine("Three.", "A summary.", resume=session) as second:
        assert second.context.outlook().tokens == left.tokens
        [broken] = only(await collect(second.submit("three")), ev.PrefixBroken)
        assert broken.reason == CHANGED_BEFORE
        assert broken.rebilled_tokens < cache.readings[-1].written
        await collect(second.compact())
        left = second.context.outlook()
    async with engine("Four.", resume=session) as third:
        assert third.context.outlook() == left
        events = await collect(third.submit("four"))
        assert [event for event in events if isinstance(event, ev.PrefixBroken | ev.NoticeRaised)] == []
