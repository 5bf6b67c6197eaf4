"""No command prints values in Python notation."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path

from agentcli.assemble import Options, build_engine
from agentcli.commands.line import run_command
from agentcli.commands.registry import COMMANDS
from agentcli.core.events import NoticeRaised
from agentcli.core.permission import PermissionMode
from tests.support.scripts import call, provider_on, reply, transport_for

PYTHON = re.compile(r"\{'|\['|\('|\bNone\b|\bTrue\b|\bFalse\b|<\w+\.\w+: |object at 0x|PosixPath|frozenset|dict_\w+\(")
ARGUMENTS = {
    "permissions": ["", "recent", "add allow Bash(make)", "test Bash make"],
    "effort": ["", "high", "nonsense"],
    "thinking": ["", "off"],
    "mode": ["", "plan", "nonsense"],
    "model": ["", "haiku"],
    "budget": ["", "5", "off"],
    "help": ["", "undo"],
    "diff": ["", "session"],
    "context": ["", "pin nothing"],
}
NAMES = [command.name for command in COMMANDS if command.kind == "report"]
CHANGING = [
    "budget",
    "thinking",
    "effort",
    "model",
    "mode",
    "plan",
    "redo",
    "undo",
    "rename",
    "resume",
    "clear",
    "exit",
]
"""These change what others show, and come last in this order."""
RULES = '{"allow": ["Bash(ls)"], "deny": ["Read(.env)"], "ask": ["Bash(make)"]}'
SETTINGS = '{"sandbox": {"mode": "off"}, "permissions": ' + RULES + "}"


def test_no_command_prints_python_values(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    said: dict[str, list[str]] = {}

    async def run() -> None:
        provider = provider_on(
            transport_for(
                reply(
                    call("Write", file_path="a.txt", content="a\n"),
                    call("Bash", command="echo out; exit 3"),
                    call("TodoWrite", todos=[{"content": "Look", "status": "pending", "activeForm": "Looking"}]),
                ),
                "Done.",
            )
        )
        options = Options(
            cwd=tmp_path / "project",
            environ={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
            interactive=False,
            provider=provider,
            permission_mode=PermissionMode.BYPASS,
            model="claude-sonnet-5-5",
            settings=SETTINGS,
        )
        async with build_engine(options) as engine:
            async for _event in engine.submit("go"):
                pass
            for name in [*(name for name in NAMES if name not in CHANGING), *CHANGING]:
                said[name] = []
                for arguments in ARGUMENTS.get(name, [""]):
                    events = [event async for event in run_command(engine, name, arguments)]
                    said[name] += [event.text for event in events if isinstance(event, NoticeRaised)]

    asyncio.run(run())
    assert set(said) == set(NAMES)
    for name, texts in said.items():
        assert texts, name
        for text in texts:
            assert not PYTHON.search(text), (name, text)
