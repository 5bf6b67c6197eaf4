"""Traces of each prompt go to a collector, a real process, if the user's own setting says so. Else nothing is sent."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.e2e.program import Program
from tests.support.collector import Collector, running_collector
from tests.support.scripts import call, reply
from tests.support.server import LoopbackServer

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def collector_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    with running_collector(tmp_path_factory.mktemp("otlp") / "collector") as running:
        yield running


@pytest.fixture
def collector(collector_process: Collector) -> Collector:
    collector_process.forget()
    return collector_process


def use(program: Program, endpoint: str) -> None:
    settings = program.home / ".config" / "agentcli" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({"otlpEndpoint": endpoint}))


async def test_each_prompt_is_sent_once_with_its_headers_and_without_texts(
    program: Program, collector: Collector
) -> None:
    (program.work / "calc.txt").write_text("sum = 1\n")
    use(program, f"{collector.url}/")
    program.environ["OTEL_EXPORTER_OTLP_HEADERS"] = "x-api-key=a%20key, x-team=cli"
    async with LoopbackServer(reply(call("Read", file_path="calc.txt")), "It adds.", "Two.") as server:
        program.talk_to(server.url)
        first = await program.run("-p", "what does it do?")
        second = await program.run("-p", "and then?", "-c")
    assert [(ended.code, ended.err) for ended in (first, second)] == [(0, ""), (0, "")]
    assert [(one["path"], one["status"]) for one in collector.requests] == [("/v1/traces", 200)] * 2
    assert [one["spans"] for one in collector.requests] == [
        ["invoke_agent agentcli", "chat claude-opus-5-5", "execute_tool Read", "chat claude-opus-5-5"],
        ["invoke_agent agentcli", "chat claude-opus-5-5"],
    ]
    headers = {name.lower(): value for name, value in collector.requests[0]["headers"].items()}
    assert (headers["x-api-key"], headers["x-team"]) == ("a key", "cli")
    sent = "".join(one["text"] for one in collector.requests)
    assert not [text for text in ("what does", "It adds", "sum = 1", "calc.txt") if text in sent]
    ids = {span["spanId"] for one in collector.requests for span in _spans(one["text"])}
    exported = await program.run("trace", "what", "--export", "-")
    assert ids == {span["spanId"] for span in _spans(exported.out)}, "an export has the same ids"


def _spans(text: str) -> list[dict[str, str]]:
    return [span for one in json.loads(text)["resourceSpans"] for span in one["scopeSpans"][0]["spans"]]


async def test_nothing_is_sent_without_the_users_own_setting(program: Program, collector: Collector) -> None:
    """Neither the variables alone nor the settings of a trusted repository switch it on."""
    program.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = collector.url
    settings = program.work / ".agentcli" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"otlpEndpoint": collector.url, "env": {"AGENTCLI_X": "1"}}))
    async with LoopbackServer("One.") as server:
        program.talk_to(server.url)
        ended = await program.run("-p", "hello", "--trust")
    assert (ended.code, ended.out) == (0, "One.\n")
    assert "otlpEndpoint" in ended.err, "the ignored setting is named"
    assert collector.requests == []


@pytest.mark.parametrize(
    ("endpoint", "problem"),
    [
        ("http://127.0.0.1:1", "Traces could not be sent to http://127.0.0.1:1/v1/traces: Connection refused."),
        ("collector", "The setting otlpEndpoint needs an address"),
        ("http://[collector:4318", "The setting otlpEndpoint needs an address"),
    ],
)
async def test_a_collector_that_is_gone_costs_one_notice(program: Program, endpoint: str, problem: str) -> None:
    use(program, endpoint)
    prompts = [json.dumps({"type": "user", "message": {"role": "user", "content": str(n)}}) for n in range(2)]
    async with LoopbackServer("One.", "Two.") as server:
        program.talk_to(server.url)
        lines = "\n".join(prompts).encode()
        flags = ("--input-format", "stream-json", "--output-format", "stream-json", "--verbose")
        ended = await program.run("-p", *flags, stdin=lines)
    assert ended.code == 0
    assert ended.err.count("Traces") == 1
    assert problem in ended.err
    assert ended.frames[-1]["result"] == "Two."


async def test_an_answer_that_refuses_is_shown(program: Program, collector: Collector) -> None:
    use(program, f"{collector.url}/elsewhere")
    async with LoopbackServer("One.") as server:
        program.talk_to(server.url)
        ended = await program.run("-p", "hello")
    assert (ended.code, ended.out) == (0, "One.\n")
    assert "status 404" in ended.err
