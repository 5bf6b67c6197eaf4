"""How often a user is asked: the calls of one hundred coding sessions, put to the assembled policy in each mode.

    python -m tests.bench questions

The sessions are in `tests/data/transcripts.txt`. A call that needs the network counts as a question in auto mode: it
runs without one first and is offered again.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from agentcli.assemble import Options, Rights, rights_for
from agentcli.core.messages import Json
from agentcli.core.permission import PermissionMode
from tests.bench.measure import Measure, Report

TRANSCRIPTS = Path(__file__).parent.parent / "data" / "transcripts.txt"
GOALS: Mapping[PermissionMode, float | None] = {
    PermissionMode.DEFAULT: None,
    PermissionMode.ACCEPT_EDITS: 15.0,
    PermissionMode.AUTO: 3.0,
}
_TOOLS = {"read": "Read", "grep": "Grep", "glob": "Glob", "edit": "Edit", "write": "Write", "$": "Bash"}
_ACTS = re.compile(
    r"(?:^|[;&|]\s*|do |\s)(?:pytest|python3? (?!--version|-V)|npm (?!ls)|npx|vitest|make(?! -n)|cargo (?!--version)|node -e"
    r"|go (?!version)|ruff|mypy|git (?:add|commit|mv|apply|checkout|tag v|push|rebase|clean -f|fetch)|rm|mkdir|cp|sed -i"
    r"|chmod|\./|docker|gh|pip install|timeout|curl|sqlite3|tee)\b",
    re.MULTILINE,
)
"""Programs that run code, change files or talk to others. Whatever else a transcript runs only looks."""


@dataclass(frozen=True)
class Request:
    session: str
    tool: str
    subject: str
    needs_network: bool = False

    @property
    def only_looks(self) -> bool:
        if self.tool == "Bash":
            return not self.needs_network and _ACTS.search(self.subject) is None
        return self.tool in ("Read", "Grep", "Glob")

    def input(self, folder: Path) -> Json:
        path = str(folder / self.subject)
        match self.tool:
            case "Bash":
                return {"command": self.subject}
            case "Grep" | "Glob":
                return {"pattern": self.subject}
            case "Read":
                return {"file_path": path}
            case "Write":
                return {"file_path": path, "content": "new\n"}
            case _:
                return {"file_path": path, "old_string": "a", "new_string": "b"}


def requests() -> list[Request]:
    found: list[Request] = []
    session = ""
    for line in TRANSCRIPTS.read_text(encoding="utf-8").splitlines():
        if line.startswith("== "):
            session = line[3:]
        elif line and not line.startswith("#"):
            network, line = line.startswith("net "), line.removeprefix("net ")
            kind, _blank, subject = line.partition(" ")
            found.append(Request(session, _TOOLS[kind], subject.replace("¶", "\n"), network))
    return found


@contextmanager
def project(calls: list[Request]) -> Iterator[tuple[Path, Mapping[str, str]]]:
    """A git repository with the files that the sessions work on, outside of the temp folder, and a fresh home."""
    with TemporaryDirectory(prefix=".agentcli-bench-", dir=Path.home()) as name:
        base = Path(name).resolve()
        folder, home = base / "project", base / "home"
        home.mkdir()
        for call in calls:
            words = call.subject.split() if call.tool == "Bash" else [call.subject]
            names = [word for word in words if re.fullmatch(r"[\w.-]+(?:/[\w.-]+)+\.\w+", word)]
            if call.tool in ("Read", "Edit"):
                names.append(call.subject)
            for path in names:
                if not path.startswith(("..", "localhost")):
                    (folder / path).parent.mkdir(parents=True, exist_ok=True)
                    (folder / path).write_text("a\n")
        environ = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "SHELL": "/bin/bash"}
        identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
        for words in (("init", "-q", "-b", "main"), ("add", "-A"), (*identity, "commit", "-qm", "first")):
            subprocess.run(["git", *words], cwd=folder, env=environ, check=True, capture_output=True)
        yield folder, environ


def is_asked(call: Request, rights: Rights, folder: Path) -> bool:
    if call.needs_network and rights.policy.mode is PermissionMode.AUTO:
        return True
    input = call.input(folder)
    tool = rights.registry.get(call.tool)
    assert tool is not None
    needs = tool.needs(input, rights.context)
    decision = rights.policy.decide(call.tool, input, needs, rights.context.cwd, rights.context.working_dirs)
    return decision.behavior != "allow"


def asked(mode: PermissionMode) -> tuple[list[Request], list[Request]]:
    """All calls, and those that ask in a mode."""
    calls = requests()
    with project(calls) as (folder, environ):
        rights = rights_for(Options(cwd=folder, environ=environ, permission_mode=mode))
        return calls, [call for call in calls if is_asked(call, rights, folder)]


def questions(_runs: int) -> Report:
    measures: list[Measure] = []
    notes: list[str] = []
    for mode, goal in GOALS.items():
        calls, stopped = asked(mode)
        looking = [call for call in stopped if call.only_looks]
        measures.append(Measure(mode.value, (100 * len(stopped) / len(calls),), "in 100 calls", budget=goal))
        measures.append(Measure(f"{mode.value}, looking", (float(len(looking)),), "questions", budget=0.0))
        notes += [f"{mode.value}: asked to look: {call.subject!r}" for call in looking]
        if mode is PermissionMode.AUTO:
            notes += [f"auto: {call.subject!r}" for call in stopped]
    sessions = len({call.session for call in requests()})
    title = f"Questions in {len(requests())} calls of {sessions} sessions"
    return Report(title, tuple(measures), tuple(notes))
