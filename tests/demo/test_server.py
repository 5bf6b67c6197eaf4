"""The demo's Messages API over real HTTP: with the true SDK and the real engine, and with requests of other kinds."""

from __future__ import annotations

import http.client
import json
import os
import socket
from collections.abc import Iterator
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

import pytest

from agentcli.assemble import Options, build_engine
from agentcli.cli.demo import SETTINGS
from agentcli.core import events as ev
from agentcli.core.abort import AbortReason
from agentcli.core.permission import Answer
from agentcli.demo import words
from agentcli.demo.project import CODE, Project
from agentcli.demo.server import DemoServer

Json = dict[str, Any]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Project() as made:
        yield made


@pytest.fixture
def server(project: Project) -> Iterator[DemoServer]:
    with DemoServer(lambda: project.fixed, lambda: "/compact", speed=100) as running:
        yield running


def ask(server: DemoServer, method: str, path: str, body: Json | None = None, key: str = "") -> tuple[int, Json]:
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=20)
    try:
        headers = {"x-api-key": key or server.key}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def options(project: Project, server: DemoServer) -> Options:
    environ = project.environment(os.environ)
    environ |= {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.key, "AGENTCLI_SANDBOX": "off"}
    return Options(
        cwd=project.folder, environ=environ, interactive=True, model=words.MODEL, settings=json.dumps(SETTINGS)
    )


async def submit(engine: Any, prompt: str, behavior: Any = "allow", stop_after: int = 0) -> list[ev.Event]:
    seen: list[ev.Event] = []
    streamed = 0
    async with aclosing(engine.submit(prompt)) as events:
        async for event in events:
            seen.append(event)
            if isinstance(event, ev.PermissionRequested):
                engine.answer(event.request_id, Answer(behavior))
            if isinstance(event, ev.TextStreamed):
                streamed += len(event.text)
                if 0 < stop_after < streamed:
                    engine.abort(AbortReason.USER_CANCEL)
    return seen


@pytest.mark.anyio
async def test_the_real_client_plays_the_whole_fix(project: Project, server: DemoServer) -> None:
    async with build_engine(options(project, server)) as engine:
        seen = await submit(engine, words.FIX)
        names = [event.name for event in seen if isinstance(event, ev.ToolFinished)]
        assert names == ["Read", "Read", "Read", "Bash", "Edit", "Bash"]
        retries = [event for event in seen if isinstance(event, ev.RetryScheduled)]
        assert [(retry.status, retry.attempt) for retry in retries] == [(429, 1)]
        assert any(isinstance(event, ev.ThinkingStreamed) for event in seen)
        usages = [event.usage for event in seen if isinstance(event, ev.UsageReported)]
        assert usages[0].cache_read_input_tokens == 0
        assert all(usage.cache_read_input_tokens > 1_000 for usage in usages[1:])
        assert not [event for event in seen if isinstance(event, ev.PrefixBroken | ev.FeatureDropped)]
        end = seen[-1]
        assert isinstance(end, ev.Result)
        assert not end.is_error
        assert "Fixed, and proven" in end.text
        assert end.total_cost_usd > 0
        assert project.problem() == ""

        await submit(engine, words.TALK, stop_after=300)
        end = (await submit(engine, "and now?"))[-1]
        assert isinstance(end, ev.Result)
        assert "You stopped me and said “and now?”" in end.text


@pytest.mark.anyio
async def test_denying_every_question_changes_nothing_and_names_the_reason(
    project: Project, server: DemoServer
) -> None:
    async with build_engine(options(project, server)) as engine:
        end = (await submit(engine, words.FIX, "deny"))[-1]
        assert isinstance(end, ev.Result)
        assert "stays as it is" in end.text
        assert project.problem()


@pytest.mark.anyio
async def test_a_file_that_changes_while_the_edit_is_asked_about_is_read_again_and_fixed(
    project: Project, server: DemoServer
) -> None:
    code = project.folder / CODE
    names = []
    async with build_engine(options(project, server)) as engine, aclosing(engine.submit(words.FIX)) as events:
        async for event in events:
            if isinstance(event, ev.PermissionRequested):
                if event.name == "Edit" and "# by hand" not in code.read_text():
                    code.write_text(code.read_text() + "\n# by hand\n")
                engine.answer(event.request_id, Answer("allow"))
            if isinstance(event, ev.ToolFinished):
                names.append(event.name)
    assert names == ["Read", "Read", "Read", "Bash", "Edit", "Read", "Edit", "Bash"]
    assert "# by hand" in code.read_text()
    assert project.problem() == ""


def test_only_requests_with_the_key_are_answered(server: DemoServer) -> None:
    status, body = ask(server, "POST", "/v1/messages", {"messages": []}, key="another")
    assert (status, body["error"]["type"]) == (401, "authentication_error")


def test_tokens_are_counted_and_the_one_model_is_listed(server: DemoServer) -> None:
    short = ask(server, "POST", "/v1/messages/count_tokens", {"messages": [{"role": "user", "content": "hi"}]})
    long = ask(server, "POST", "/v1/messages/count_tokens", {"messages": [{"role": "user", "content": "hi " * 900}]})
    assert short[0] == long[0] == 200
    assert long[1]["input_tokens"] > short[1]["input_tokens"] + 600
    assert [model["id"] for model in ask(server, "GET", "/v1/models")[1]["data"]] == [words.MODEL]


def test_unknown_requests_are_refused_like_the_api_does(server: DemoServer) -> None:
    assert ask(server, "GET", "/v1/files")[0] == 404
    assert ask(server, "POST", "/v1/messages", {})[0] == 400


def test_a_client_that_does_not_stream_is_answered_whole(server: DemoServer) -> None:
    body = {"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "hello"}]}
    status, message = ask(server, "POST", "/v1/messages", body)
    assert status == 200
    assert "I am a script, not a model" in message["content"][0]["text"]
    assert "`/compact`" in message["content"][0]["text"]
    assert message["stop_reason"] == "end_turn"


def test_nonsense_on_the_line_ends_the_connection_and_not_the_server(server: DemoServer) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    for nonsense in (b"\x00\xff\r\n\r\n", b"GET / HTTP/1.1\r\ncontent-length: -5\r\n\r\n", b""):
        with socket.create_connection((host, int(port)), timeout=20) as line:
            line.sendall(nonsense)
            line.shutdown(socket.SHUT_WR)
            assert line.recv(100) == b""
    assert ask(server, "GET", "/v1/models")[0] == 200


def test_closing_does_not_wait_for_an_unfinished_reply() -> None:
    with DemoServer(lambda: False, lambda: "", speed=0.001) as server:
        connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=20)
        body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hello"}]}
        connection.request("POST", "/v1/messages", json.dumps(body), {"x-api-key": server.key})
        assert connection.getresponse().status == 200
    assert not server._thread.is_alive()
    connection.close()


def refused(server: DemoServer, head: str) -> bytes:
    """What comes back for the head of a request whose body never comes."""
    host, _colon, port = server.url.removeprefix("http://").partition(":")
    answer = b""
    with socket.create_connection((host, int(port)), timeout=20) as connection, suppress(ConnectionError):
        connection.sendall(f"POST /v1/messages HTTP/1.1\r\n{head}\r\n\r\n".encode())
        while piece := connection.recv(65_536):
            answer += piece
    return answer


def test_a_request_without_the_key_is_refused_before_its_body_is_read(server: DemoServer) -> None:
    assert refused(server, "Content-Length: 30000000").startswith(b"HTTP/1.1 401 ")
    assert refused(server, "x-api-key: demo-0\r\nContent-Length: 30000000").startswith(b"HTTP/1.1 401 ")
    assert refused(server, f"X: {'x' * 200_000}") == b""


def test_a_page_in_a_browser_is_refused_even_with_the_key(server: DemoServer) -> None:
    head = f"x-api-key: {server.key}\r\nOrigin: http://localhost\r\nContent-Length: 2"
    assert refused(server, head).startswith(b"HTTP/1.1 403 ")
