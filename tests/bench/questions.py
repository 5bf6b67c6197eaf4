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
from agentcli.core.permission import Need, PermissionMode
from agentcli.permissions.policy import Policy
from tests.bench.measure import Measure, Report

TRANSCRIPTS = Path(__file__).parent.parent / "data" / "transcripts.txt"
GOALS: Mapping[PermissionMode, float | None] = {
    PermissionMode.DEFAULT: None,
    PermissionMode.ACCEPT_EDITS: 15.0,
    PermissionMode.AUTO: 3.0,
}
_TOOLS = {"read": "Read", "grep": "Grep", "glob": "Glob", "edit": "Edit", "write": "Write", "$": "Bash"}
_ACTS = re.compile(
    r"(?:^|[;&|(]\s*|\bdo |\bthen |=\S+ |timeout \d+ |time )"
    r"(?:pytest|python3? (?!--version)|npm |npx |make |cargo (?!--version)|node -e|go (?!version)|ruff |mypy "
    r"|git (?:add|commit|mv|apply (?!--check)|checkout|tag v|push|rebase|clean -f|fetch)|rm |mkdir |cp |sed -i|chmod "
    r"|\./|docker |gh |pip (?!--version)|curl |sqlite3 |tee )",
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
        names: dict[str, None] = {}
        for call in calls:
            words = call.subject.split() if call.tool == "Bash" else [call.subject]
            names |= dict.fromkeys(word for word in words if re.fullmatch(r"[\w.-]+(?:/[\w.-]+)+\.\w+", word))
            if call.tool in ("Read", "Edit"):
                names[call.subject] = None
        for path in names:
            if not path.startswith(("..", "localhost")):
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_text("a\n")
        environ = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "SHELL": "/bin/bash"}
        identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
        for words in (("init", "-q", "-b", "main"), ("add", "-A"), (*identity, "commit", "-qm", "first")):
            subprocess.run(["git", *words], cwd=folder, env=environ, check=True, capture_output=True)
        yield folder, environ


@dataclass(frozen=True)
class Counted:
    calls: int
    once: list[Request]
    """What asks when the user allows each call once."""
    always: list[Request]
    """What asks when the user takes the prefix that "always" offers, and saves it for the project."""


def asked(mode: PermissionMode, *, answered_always: bool = True) -> Counted:
    calls = requests()
    once: list[Request] = []
    always: list[Request] = []
    with project(calls) as (folder, environ):
        rights = rights_for(Options(cwd=folder, environ=environ, permission_mode=mode))
        try:
            first = policy = rights.policy
            decisions: dict[tuple[str, str, bool], str] = {}
            for call in calls:
                # Sessions repeat calls, and the rules that they begin with stay the same.
                key = (call.tool, call.subject, call.needs_network)
                if key not in decisions:
                    decisions[key] = _decision(call, rights, first, folder)
                if decisions[key] == "allow":
                    continue
                once.append(call)
                if answered_always and _decision(call, rights, policy, folder) != "allow":
                    always.append(call)
                    policy = policy.with_allowed(_offered(call, rights, policy, folder), "an answer")
        finally:
            rights.context.launcher.close()
    return Counted(len(calls), once, always)


def _needs(call: Request, rights: Rights, folder: Path) -> tuple[Need, ...]:
    tool = rights.registry.get(call.tool)
    assert tool is not None
    return tool.needs(call.input(folder), rights.context)


def _decision(call: Request, rights: Rights, policy: Policy, folder: Path) -> str:
    if call.needs_network and policy.mode is PermissionMode.AUTO:
        return "ask"
    context = rights.context
    needs = _needs(call, rights, folder)
    return policy.decide(call.tool, call.input(folder), needs, context.cwd, context.working_dirs).behavior


def _offered(call: Request, rights: Rights, policy: Policy, folder: Path) -> tuple[str, ...]:
    """The prefix that the question offers; nothing where it offers only the exact call."""
    context = rights.context
    needs = _needs(call, rights, folder)
    choices = policy.suggest(call.tool, needs, context.cwd, context.working_dirs).choices()
    return choices[0].rules if len(choices) > 1 else ()


def questions(_runs: int) -> Report:
    measures: list[Measure] = []
    notes: list[str] = []
    for mode, goal in GOALS.items():
        found = asked(mode)
        looking = [call for call in found.once if call.only_looks]
        for name, stopped, budget in (("once", found.once, None), ("always", found.always, goal)):
            share = 100 * len(stopped) / found.calls
            measures.append(Measure(f"{mode.value}, allowed {name}", (share,), "in 100 calls", budget=budget))
        measures.append(Measure(f"{mode.value}, looking", (float(len(looking)),), "questions", budget=0.0))
        notes += [f"{mode.value}: asked to look: {call.subject!r}" for call in looking]
        notes += [f"{mode.value}: {call.subject!r}" for call in found.always if mode is PermissionMode.AUTO]
    sessions = len({call.session for call in requests()})
    title = f"Questions in {len(requests())} calls of {sessions} sessions"
    return Report(title, tuple(measures), tuple(notes))
