from __future__ import annotations

import asyncio
import json
import sys
import urllib.request
from pathlib import Path

import pytest

from agentcli.core.errors import UsageError
from agentcli.providers.script import Player, Script
from tests.support.tables import each_row

SIDE = {"messages": [{"role": "user", "content": "make a title please"}]}
MAIN = {"messages": [{"role": "user", "content": [{"type": "text", "text": "work"}]}], "system": "You."}


def texts(player: Player, *bodies: dict[str, object]) -> list[object]:
    return [reply.steps[0]["text"] if reply.steps else reply.error for reply in map(player.next, bodies)]


def test_matching_replies_are_for_requests_that_match_and_the_others_go_in_order() -> None:
    script = Script.parse(
        {"version": 1, "replies": ["one", {"text": "title", "match": "title", "repeat": True}, "two"]}
    )
    player = Player(script)
    assert texts(player, SIDE, MAIN, SIDE, MAIN) == ["title", "one", "title", "two"]


def test_a_reply_may_repeat_and_an_exhausted_script_is_reported() -> None:
    player = Player(Script.parse([{"text": "a", "repeat": 2}]))
    assert texts(player, MAIN, MAIN)[:2] == ["a", "a"]
    error = player.next(MAIN).error_answer()
    assert error is not None
    assert "no reply left" in error.body


def test_the_system_prompt_can_be_matched_too() -> None:
    assert texts(Player(Script.parse(["x", {"text": "y", "match": "^You"}])), MAIN) == ["y"]


@each_row(
    ("data", "told"),
    [
        ("{", "not JSON"),
        ({"version": 9}, "version 9"),
        ({"replies": 3}, "list"),
        ([{}], r"replies\[0\]"),
        ([{"steps": [{"say": "x"}]}], r"replies\[0\].steps\[0\]"),
        ([{"steps": [{"fault": "fire"}]}], "'fire'"),
        ([{"text": "x", "match": "("}], "regular expression"),
    ],
)
def test_a_mistake_in_a_script_is_named_with_its_place(data: object, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        Script.parse(data)  # type: ignore[arg-type]


@pytest.mark.anyio
async def test_the_loopback_server_runs_in_a_process_of_its_own(tmp_path: Path) -> None:
    script, port_file = tmp_path / "script.json", tmp_path / "port"
    script.write_text(json.dumps({"version": 1, "replies": ["hi"]}))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.support.server", str(script), "--port-file", str(port_file)
    )
    try:
        async with asyncio.timeout(20):
            while not port_file.exists():
                await asyncio.sleep(0.01)
        body = json.dumps({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]}).encode()
        headers = {"content-type": "application/json", "anthropic-version": "1"}
        request = urllib.request.Request(f"http://127.0.0.1:{port_file.read_text()}/v1/messages", body, headers)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        answer = await asyncio.to_thread(lambda: opener.open(request, timeout=10).read())
        assert b"message_stop" in answer
    finally:
        process.kill()
        await process.wait()
