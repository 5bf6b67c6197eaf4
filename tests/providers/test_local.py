"""Servers on this machine are recognised by their responses; other programs are not."""

from __future__ import annotations

import asyncio
import json

import pytest

from agentcli.providers.local_servers import PROGRAMS, LocalServer, Program, find_local_servers, speaks_messages
from tests.support.listener import Listener

pytestmark = pytest.mark.anyio
PATIENT = 5.0
"""Seconds that only a failing test waits for."""


def models(*names: object) -> tuple[int, bytes]:
    return 200, json.dumps({"object": "list", "data": [{"id": name} for name in names]}).encode()


async def test_servers_that_list_models_are_found_in_order() -> None:
    async with (
        Listener(models=models("llama", "qwen")) as first,
        Listener(models=(404, b"{}")) as second,
        Listener(models=models("phi")) as third,
        Listener() as gone,
    ):
        programs = [Program(name, server.port) for name, server in zip("abc", (first, second, third), strict=True)]
        await gone.__aexit__()
        found = await find_local_servers([*programs, Program("d", gone.port)], PATIENT)
        assert found == (LocalServer("a", first.url, ("llama", "qwen")), LocalServer("c", third.url, ("phi",)))
        ((method, path, headers),) = first.requests
        assert (method, path) == ("GET", "/v1/models")
        assert not {"authorization", "x-api-key", "cookie"} & set(headers)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b'{"data": {}}',
        b'{"data": [1, null, {"id": 3}, {"id": ""}]}',
        b'{"data": []}',
        b"[" * 99999,
    ],
)
async def test_another_program_on_the_port_is_no_model_server(body: bytes) -> None:
    async with Listener(models=(200, body)) as server:
        assert await find_local_servers([Program("a", server.port)], PATIENT) == ()


async def test_names_with_control_characters_or_excessive_length_are_left_out() -> None:
    hostile = ("\x1b[2Jwiped", "two\nlines", "right\u202eleft", "x" * 300, " edges ", "fine:7b")
    async with Listener(models=models(*hostile)) as server:
        (found,) = await find_local_servers([Program("a", server.port)], PATIENT)
    assert found.models == ("fine:7b",)


@pytest.mark.parametrize("raw", [b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 abc\r\n\r\n", b"\x00" * 4000, b"HTTP/1.1"])
async def test_a_port_without_http_is_no_server(raw: bytes) -> None:
    async with Listener() as server:
        server.raw = raw
        assert await find_local_servers([Program("a", server.port)], PATIENT) == ()


async def test_several_silent_servers_cost_one_timeout_in_total() -> None:
    async with Listener(models=None) as one, Listener(models=None) as other:
        loop = asyncio.get_running_loop()
        began = loop.time()
        programs = [Program("a", one.port), Program("b", other.port)] * 20
        assert await find_local_servers(programs, 0.1) == ()
        assert loop.time() - began < 40 * 0.1


async def test_support_for_the_messages_api_is_probed_without_inference() -> None:
    async with Listener(messages=(400, b"{}")) as server:
        assert await speaks_messages(LocalServer("a", server.url, ("m",)), PATIENT) is True
        assert server.requests[0][:2] == ("POST", "/v1/messages")
        del server.answers["/v1/messages"]
        assert await speaks_messages(LocalServer("a", server.url, ("m",)), PATIENT) is False
        server.answers["/v1/messages"] = None
        assert await speaks_messages(LocalServer("a", server.url, ("m",)), 0.05) is None


def test_only_the_default_ports_are_probed() -> None:
    assert {program.name: program.port for program in PROGRAMS} == {
        "Ollama": 11434,
        "LM Studio": 1234,
        "llama.cpp": 8080,
        "vLLM": 8000,
    }
