"""The bench's side of `server.py`: start it, tell it what to play, ask what it noted."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from agentcli.providers.catalog import DEFAULT_MODEL
from agentcli.providers.script import Delay, Emit, Script
from tests.support.fork_server import ForkedProcess

Json = dict[str, Any]
MODEL = DEFAULT_MODEL
FOR_EVER = 600.0
_SERVER = Path(__file__).with_name("server.py")


def segments(reply: Json | str, number: int) -> list[tuple[float, str]]:
    """A scripted reply as what goes over the wire: text that is sent in one go, and the wait before each."""
    made: list[tuple[float, str]] = []
    wait, text = 0.0, ""
    for operation in Script.parse([reply]).replies[0].operations(number, MODEL):
        if isinstance(operation, Emit):
            text += f"event: {operation.event['type']}\ndata: {json.dumps(operation.event)}\n\n"
        elif isinstance(operation, Delay):
            made.append((wait, text))
            wait, text = operation.seconds, ""
    return [*made, (wait, text)]


class Loopback:
    def __init__(self) -> None:
        its_input, self._input = os.pipe()
        output, its_output = os.pipe()
        try:
            self._process = self._start(its_input, its_output)
        finally:
            os.close(its_input)
            os.close(its_output)
        with os.fdopen(output) as lines:
            self._port = int(lines.readline())

    def _start(self, its_input: int, its_output: int) -> subprocess.Popen[bytes] | ForkedProcess:
        return subprocess.Popen([sys.executable, "-I", str(_SERVER)], stdin=its_input, stdout=its_output)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def play(self, *replies: Json | str) -> None:
        script = [segments(reply, number) for number, reply in enumerate(replies, 1)]
        self._ask("PUT", "/script", json.dumps(script))

    def answer_aside(self, text: str, reply: Json) -> None:
        """Requests that end with this text get this reply, until the next script."""
        self._ask("PUT", "/aside", json.dumps([text, segments(reply, 1)]))

    def records(self) -> list[tuple[str, int, int, float]]:
        return [(kind, number, segment, at) for kind, number, segment, at in json.loads(self._ask("GET", "/records"))]

    def arrivals(self) -> list[float]:
        """When each request was there, to its last byte."""
        return [at for kind, _number, _segment, at in self.records() if kind == "request"]

    def last_sent(self) -> float:
        return max(at for kind, _number, _segment, at in self.records() if kind == "sent")

    def wait_for(self, kind: str, seconds: float = 10.0) -> float:
        """When the first thing of this kind happened; for what another process is about to do."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for noted, _number, _segment, at in self.records():
                if noted == kind:
                    return at
            time.sleep(0.002)
        raise TimeoutError(f"the server noted no {kind} within {seconds:g} seconds")

    def _ask(self, method: str, path: str, body: str | None = None) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=10)
        try:
            connection.request(method, path, body)
            return connection.getresponse().read()
        finally:
            connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._input)
        self._process.wait()
