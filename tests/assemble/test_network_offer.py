"""Network in auto mode, in the assembled program: allowed hosts work, others are offered, nothing else is reached."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import aclosing

import pytest

from agentcli.core import events as ev
from agentcli.core.abort import AbortReason
from agentcli.interactive.wording import question_of
from agentcli.sandbox import host_proxy as host_proxy
from tests.support.contained import Project, always, fetching, no, web_server, yes
from tests.support.scripts import call

pytestmark = pytest.mark.anyio
HOST = "machine.internal"


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(host_proxy, "_addresses", lambda _host, _port: ["127.0.0.1"])
    with web_server() as port:
        yield f"http://{HOST}:{port}/x"


async def test_an_allowed_host_is_reached_without_a_question(contained: Project, url: str) -> None:
    async with contained.commands(fetching(url), allowed_tools=(f"Network({HOST})",)) as session:
        (result,) = await session.run()
        assert session.asked == []
    assert "page /x" in result


async def test_a_new_host_is_one_question_and_then_the_command_runs_again(contained: Project, url: str) -> None:
    async with contained.commands(fetching(url), fetching(url)) as session:
        results = await session.run(always)
        (question,) = session.asked
        assert question.reason == f"It tried to reach {HOST}. It would run again with access to that host only."
        assert question.suggestions == [f"Network({HOST})"]
        assert question_of(question) == "Run it again with network?"
    assert all("page /x" in text and "may not reach" not in text for text in results), results
    assert not (contained.path / ".agentcli" / "settings.local.json").exists(), "it applies to this session only"


@pytest.mark.parametrize("name", ["settings.json", "settings.local.json"])
async def test_no_file_of_a_trusted_project_opens_hosts_or_credentials(contained: Project, url: str, name: str) -> None:
    rules = [f"Network({HOST})", "Env(python3:AWS_SECRET_ACCESS_KEY)"]
    (contained.path / ".agentcli").mkdir(exist_ok=True)
    (contained.path / ".agentcli" / name).write_text(json.dumps({"permissions": {"allow": rules}}))
    show = "python3 -c \"import os; print('it is', os.environ.get('AWS_SECRET_ACCESS_KEY'))\""
    environ = {"AWS_SECRET_ACCESS_KEY": "from-the-user"}
    async with contained.commands(fetching(url), show, trust=True, variables=environ) as session:
        results = await session.run(no)
    assert "page /x" not in results[0]
    assert "it is None" in results[1]


async def test_a_host_allowed_once_is_asked_about_again(contained: Project, url: str) -> None:
    async with contained.commands(fetching(url), fetching(url)) as session:
        await session.run(yes)
        assert len(session.asked) == 2


async def test_a_denied_host_keeps_the_first_output_and_a_note(contained: Project, url: str) -> None:
    async with contained.commands(f"echo before; {fetching(url)}") as session:
        (result,) = await session.run(no)
    assert result.startswith("before")
    assert f"may not reach {HOST}" in result
    assert "The user declined to run it again with network." in result


async def test_a_second_host_is_offered_too_and_both_are_then_allowed(contained: Project, url: str) -> None:
    other = url.replace(HOST, "other.internal")
    async with contained.commands(f"{fetching(url)} && {fetching(other)}") as session:
        (result,) = await session.run(yes)
        assert [event.display["network"] for event in session.asked] == [[HOST], ["other.internal"]]
    assert result.count("page /x") == 2


async def test_a_non_interactive_run_reports_the_host_and_the_flag(contained: Project, url: str) -> None:
    async with contained.commands(fetching(url), interactive=False) as session:
        (result,) = await session.run()
        assert session.asked == []
    assert f"may not reach {HOST}" in result
    assert f"--allowedTools 'Network({HOST})'" in result


async def test_stopping_during_the_question_keeps_the_output_of_the_first_run(contained: Project, url: str) -> None:
    async with contained.commands(f"echo before; {fetching(url)}") as session:
        async with aclosing(session.engine.submit("go")) as stream:
            async for event in stream:
                if isinstance(event, ev.PermissionRequested):
                    session.engine.abort(AbortReason.USER_CANCEL)
        (result,) = session.results
    assert "before" in result


async def test_a_background_command_reports_the_host_at_its_end(contained: Project, url: str) -> None:
    calls = (
        call("Bash", command=f"{fetching(url)}; echo over", run_in_background=True),
        call("Bash", command="true"),
    )
    async with contained.session(*calls) as session:
        await session.run()
        shells = session.engine.session.tool_context.shells
        assert shells is not None
        (shell,) = shells.known()
        while not (shell.command.done and shell.ended):
            await asyncio.sleep(0.01)
        assert session.asked == []
        assert f"may not reach {HOST} without the rule Network({HOST})" in shell.ended


async def test_a_refused_loopback_connection_is_explained_and_not_offered(contained: Project) -> None:
    command = "python3 -c \"import socket; socket.create_connection(('127.0.0.1', 9), 5)\""
    async with contained.commands(command) as session:
        (result,) = await session.run()
        assert session.asked == []
    assert "Connection refused" in result
