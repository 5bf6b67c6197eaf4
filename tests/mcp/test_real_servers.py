"""Servers that others wrote: the reference servers from npm, over every transport (`npm install` in tests/npm)."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from agentcli.mcp.configuration import ServerConfig, ServerSurroundings
from agentcli.mcp.protocol import (
    CallProgress,
    InputAnswer,
    InputRequest,
    SamplingReply,
    SamplingRequest,
    ServerRequests,
)
from agentcli.mcp.server import McpServer
from agentcli.mcp.servers import McpServers

PACKAGES = Path(__file__).parents[1] / "npm" / "node_modules" / "@modelcontextprotocol"
EVERYTHING = PACKAGES / "server-everything" / "dist" / "index.js"
FILESYSTEM = PACKAGES / "server-filesystem" / "dist" / "index.js"
NODE = shutil.which("node") or ""

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not NODE or not EVERYTHING.exists(), reason="run `npm install` in tests/npm first"),
]


class Duties(ServerRequests):
    """A user who answers everything, in these folders."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[InputRequest | SamplingRequest] = []

    @property
    def elicits(self) -> bool:
        return True

    @property
    def samples(self) -> bool:
        return True

    def roots(self) -> Sequence[Path]:
        return (self.folder,)

    async def elicit(self, request: InputRequest) -> InputAnswer:
        self.asked.append(request)
        return InputAnswer("accept", {"name": "Ada"})

    async def sample(self, request: SamplingRequest) -> SamplingReply:
        self.asked.append(request)
        return SamplingReply("a reply", "some-model")


@asynccontextmanager
async def connected(config: ServerConfig, folder: Path) -> AsyncGenerator[tuple[McpServer, Duties], None]:
    duties = Duties(folder)
    around = ServerSurroundings(folder, dict(os.environ), (folder,))
    servers = McpServers([config], around, duties)
    servers.start()
    try:
        await servers.wait_for_start(30)
        server = servers.get(config.name)
        assert server is not None
        assert server.state == "connected", (server.error, list(server.log))
        yield server, duties
    finally:
        await servers.aclose()


@contextmanager
def listening(transport: str) -> Iterator[int]:
    """The everything server on a port of this machine."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    command = [NODE, str(EVERYTHING), transport]
    environ = {"PATH": os.environ["PATH"], "PORT": str(port)}
    with subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        try:
            assert process.stderr is not None
            for line in process.stderr:
                if str(port) in line.decode():
                    break
            yield port
        finally:
            process.kill()


def everything() -> ServerConfig:
    return ServerConfig("everything", "stdio", command=NODE, args=(str(EVERYTHING), "stdio"))


async def test_the_everything_server_over_stdio(tmp_path: Path) -> None:
    async with connected(everything(), tmp_path) as (server, duties):
        names = {tool.name for tool in server.offers.tools}
        assert {"echo", "get-sum", "get-tiny-image", "get-structured-content", "trigger-elicitation-request"} <= names
        assert server.offers.instructions
        said = await server.call("echo", {"message": "hello"})
        assert "hello" in said.content[0].text
        image = await server.call("get-tiny-image", {})
        assert [part.kind for part in image.content].count("image") == 1
        weather = await server.call("get-structured-content", {"location": "New York"})
        assert "temperature" in weather.structured
        linked = await server.call("get-resource-links", {"count": 2})
        assert [part.kind for part in linked.content].count("link") == 2
        embedded = await server.call("get-resource-reference", {"resourceType": "Text", "resourceId": 1})
        assert any(part.kind == "resource" and part.uri for part in embedded.content)
        steps: list[CallProgress] = []
        await server.call("trigger-long-running-operation", {"duration": 0.2, "steps": 2}, steps.append)
        assert steps
        roots = await server.call("get-roots-list", {})
        assert str(tmp_path) in json.dumps([part.text for part in roots.content])
        await server.call("trigger-elicitation-request", {})
        await server.call("trigger-sampling-request", {"prompt": "hi", "maxTokens": 10})
        assert [type(request).__name__ for request in duties.asked] == ["InputRequest", "SamplingRequest"]
        resource = server.offers.resources[0]
        assert (await server.read(resource.uri))[0].text
        prompts = {prompt.name: prompt for prompt in server.offers.prompts}
        assert prompts
        plain = next(prompt for prompt in prompts.values() if not prompt.arguments)
        assert (await server.prompt(plain.name, {}))[0].content.text


@pytest.mark.parametrize(("transport", "kind", "path"), [("streamableHttp", "http", "/mcp"), ("sse", "sse", "/sse")])
async def test_the_everything_server_over_the_network(transport: str, kind: str, path: str, tmp_path: Path) -> None:
    with listening(transport) as port:
        config = ServerConfig("net", kind, url=f"http://127.0.0.1:{port}{path}")  # type: ignore[arg-type]
        async with connected(config, tmp_path) as (server, _duties):
            both = await asyncio.gather(
                server.call("get-sum", {"a": 2, "b": 3}), server.call("echo", {"message": "again"})
            )
            assert "5" in both[0].content[0].text
            assert "again" in both[1].content[0].text


async def test_the_filesystem_server_works_in_our_folders(tmp_path: Path) -> None:
    (tmp_path / "poem.txt").write_text("violets\n")
    config = ServerConfig("files", "stdio", command=NODE, args=(str(FILESYSTEM), str(tmp_path)))
    async with connected(config, tmp_path) as (server, _duties):
        assert server.offers.resources == ()
        assert next(tool for tool in server.offers.tools if tool.name == "read_text_file").read_only
        read = await server.call("read_text_file", {"path": str(tmp_path / "poem.txt")})
        assert "violets" in read.content[0].text
        outside = await server.call("read_text_file", {"path": "/etc/passwd"})
        assert outside.is_error
