"""An assembled engine in a project with a real sandbox, and a user who answers its questions."""

from __future__ import annotations

import http.server
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from agentcli.agent.engine import Engine
from agentcli.assemble import Options, build_engine
from agentcli.core import events as ev
from agentcli.core.messages import Json
from agentcli.core.permission import Answer, PermissionMode
from tests.support.scripts import call, provider_on, reply, transport_for


def yes(_event: ev.PermissionRequested) -> Answer:
    return Answer("allow")


def no(_event: ev.PermissionRequested) -> Answer:
    return Answer("deny")


def always(event: ev.PermissionRequested) -> Answer:
    return Answer("allow", rules=tuple(event.suggestions), save_to="local")


@dataclass
class Project:
    """A git repository with its own home folder, outside of the system's temp folder."""

    root: Path

    @classmethod
    def make(cls, root: Path) -> Project:
        root.mkdir()
        project = cls(root)
        project.home.mkdir()
        (project.path / "src").mkdir(parents=True)
        (project.path / "src" / "app.py").write_text("x = 1\n")
        # Samples of hooks would be half of what copies of the project consist of.
        for arguments in (["init", "-q", "--template="], ["add", "."], ["commit", "-qm", "first"]):
            project.git(*arguments)
        for folder in ("hooks", "info"):
            (project.path / ".git" / folder).mkdir()
        return project

    def copied(self, root: Path) -> Project:
        """The same in a new folder, without three runs of git."""
        shutil.copytree(self.root, root, symlinks=True)
        return Project(root)

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def path(self) -> Path:
        return self.root / "project"

    @property
    def environ(self) -> dict[str, str]:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
        return {"PATH": path, "HOME": str(self.home), "LANG": "C.UTF-8"}

    def git(self, *arguments: str) -> str:
        identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
        environ = {**self.environ, "GIT_CONFIG_NOSYSTEM": "1"}
        command = ["git", *identity, *arguments]
        return subprocess.run(
            command, cwd=self.path, env=environ, check=True, capture_output=True, text=True
        ).stdout.strip()

    def session(self, *calls: Json, **options: Any) -> Session:
        return Session(self, [reply(each) for each in calls], options)

    def submissions(self, *calls: Json, **options: Any) -> Session:
        """A session that makes one of these calls in answer to each prompt."""
        replies = [each for made in calls for each in (reply(made), reply("done"))]
        return Session(self, replies, options)

    def commands(self, *commands: str, **options: Any) -> Session:
        return self.session(*(call("Bash", command=command) for command in commands), **options)


@dataclass
class Session:
    project: Project
    replies: list[Json]
    options: dict[str, Any] = field(default_factory=dict)
    asked: list[ev.PermissionRequested] = field(default_factory=list)
    events: list[ev.Event] = field(default_factory=list)
    engine: Engine = field(init=False)

    async def __aenter__(self) -> Self:
        options: dict[str, Any] = {
            "cwd": self.project.path,
            "environ": {**self.project.environ, **self.options.pop("variables", {})},
            "provider": provider_on(transport_for(*self.replies, "done")),
            "permission_mode": PermissionMode.AUTO,
            "interactive": True,
            "model": "claude-sonnet-5-5",
            "trust": True,
            **self.options,
        }
        self.engine = build_engine(Options(**options))
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.engine.aclose()

    async def run(self, answers: Callable[[ev.PermissionRequested], Answer] = no, prompt: str = "go") -> list[str]:
        """Submit a prompt and return the texts of all tool results so far."""
        async with aclosing(self.engine.submit(prompt)) as stream:
            async for event in stream:
                self.events.append(event)
                if isinstance(event, ev.PermissionRequested):
                    self.asked.append(event)
                    assert self.engine.answer(event.request_id, answers(event))
        return self.results

    @property
    def results(self) -> list[str]:
        return [result.text for message in self.engine.messages for result in message.tool_results]

    def notices(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, ev.NoticeRaised)]


class _Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = f"page {self.path}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def web_server() -> Iterator[int]:
    """A loopback server outside of the sandbox; yields its port."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Page)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def fetching(url: str) -> str:
    """A command that fetches an address, through the proxy of its environment."""
    return f"python3 -c \"import urllib.request as u; print(u.urlopen('{url}', timeout=20).read().decode())\""
