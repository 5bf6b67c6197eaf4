"""Going on with a session: elsewhere, with another model, with settings the model cannot follow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentcli.assemble import Options, build_engine
from agentcli.core import events as ev
from agentcli.core.errors import CredentialError
from tests.support.fakes import collect, only, result_of
from tests.support.scripts import provider_on, transport_for

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


async def test_a_session_that_goes_on_elsewhere_tells_the_model_once_and_keeps_its_prefix(home: Home) -> None:
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


async def test_a_session_that_stays_is_told_nothing(home: Home) -> None:
    events, _first = await home.ask("one", "Hi.")
    _events, second = await home.ask("one", "Hi again.", resume=session_of(events))
    assert [block["text"] for block in second[0]["messages"][-1]["content"]] == ["hello"]


async def test_a_session_goes_on_with_its_model_unless_another_is_asked_for(home: Home) -> None:
    events, first = await home.ask("one", "Hi.", model="haiku")
    _events, second = await home.ask("one", "Hi.", resume=session_of(events))
    _events, third = await home.ask("one", "Hi.", resume=session_of(events), model="sonnet")
    assert [r[0]["model"] for r in (first, second, third)] == ["claude-haiku-5-5"] * 2 + ["claude-sonnet-5-5"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"thinking": "disabled", "model": "opus"}, "always thinks"),
        ({"max_thinking_tokens": 5_000, "model": "opus"}, "always thinks"),
        ({"task_budget": 50_000, "model": "claude-haiku-4-5"}, "takes no task budget"),
        ({"effort": "xhigh", "model": "claude-opus-4-5"}, "nearest"),
    ],
)
async def test_what_the_model_cannot_follow_is_said(home: Home, options: dict[str, Any], said: str) -> None:
    events, _requests = await home.ask("one", "Hi.", **options)
    assert any(said in notice.text for notice in only(events, ev.NoticeRaised))


async def test_what_the_model_can_follow_needs_no_words(home: Home) -> None:
    events, _requests = await home.ask("one", "Hi.", thinking="disabled", model="sonnet", effort="low")
    assert only(events, ev.NoticeRaised) == []


async def test_a_start_that_fails_keeps_no_session_busy(home: Home) -> None:
    events, _requests = await home.ask("one", "Hi.")
    options = Options(cwd=home.folder / "one", environ=home.environ, resume=session_of(events), sandbox="off")
    with pytest.raises(CredentialError):
        build_engine(options)
    _events, requests = await home.ask("one", "Hi.", resume=session_of(events))
    assert len(requests) == 1
