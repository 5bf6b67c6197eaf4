"""/init: let the model read the project and write AGENTS.md. The user reviews the change before it is made."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

from agentcli.agent.engine import Engine
from agentcli.commands.base import Manual
from agentcli.core.events import Event
from agentcli.core.text.plaintext import plain_line

MANUAL = Manual(
    "The model reads the project and writes AGENTS.md: how to build and test it, and where things are. An existing "
    "file is improved, not replaced. You approve the change as a diff, also if the mode allows edits; -p does not ask.",
    (
        ("/init", "write or improve AGENTS.md"),
        ("/init keep it under 20 lines", "with an instruction of your own"),
    ),
)

FILE = "AGENTS.md"
_MOST_NAMES = 80
_FACTS = (
    *("README.md", "README.rst", "CONTRIBUTING.md", ".github/CONTRIBUTING.md", "Makefile", "justfile", "Taskfile.yml"),
    *("pyproject.toml", "setup.cfg", "tox.ini", "noxfile.py", "package.json", "pnpm-workspace.yaml", "tsconfig.json"),
    *("Cargo.toml", "go.mod", "pom.xml", "build.gradle", "build.gradle.kts", "CMakeLists.txt", "Gemfile", "mix.exs"),
    *("composer.json", "docker-compose.yml", "Dockerfile", ".pre-commit-config.yaml", ".gitlab-ci.yml"),
    *(".github/workflows", ".circleci/config.yml", "Jenkinsfile", ".editorconfig"),
)
"""Files that show how a project is built and tested."""
_RULES = (
    *("AGENTS.md", "CLAUDE.md", ".claude/CLAUDE.md", ".cursorrules", ".cursor/rules", ".windsurfrules"),
    *(".github/copilot-instructions.md", "GEMINI.md", ".clinerules"),
)
"""Instruction files for agents that a project may already have."""

_PROMPT = """\
Write the file {file} in the root of this project ({root}): what an agent that has never seen the project needs to
work in it from the first minute.

Find out first, by reading and not by guessing:
- how to install, build, run, lint and test, and how to run a single test; check a command against the project's own
  files before you write it down
- how the parts work together: what cannot be seen from one file alone, where new things go
- rules of this project that differ from common habits: style, commits, generated files, what must not be touched

Write it so that every line earns its place: short, concrete, commands in code blocks, at most about 60 lines. Leave
out what is obvious, what every project has, lists of all files, and advice that is not from this project. If {file}
exists, keep what is right in it and improve it with edits. Take over what other instruction files say where it still
holds.

{facts}"""


async def run(engine: Engine, arguments: str, typed: str = "", added: str = "") -> AsyncGenerator[Event, None]:
    prompt = await asyncio.to_thread(_prompt, engine.root, "\n\n".join(filter(None, (arguments.strip(), added))))
    rules = [f"Edit(//{str(engine.root / FILE).lstrip('/')})"] if engine.interactive else []
    # An ask rule, so that the user is asked even in modes that allow edits.
    engine.permissions.change("session", "ask", add=rules, source="/init, which always asks first")
    try:
        async with aclosing(engine.submit(prompt, typed or f"/init {arguments}".strip(), mentions="")) as events:
            async for event in events:
                yield event
    finally:
        engine.permissions.change("session", "ask", remove=rules)


def _prompt(root: Path, wish: str) -> str:
    facts = [f"In the root: {', '.join(_names(root))}"]
    for title, names in (("Worth reading", _FACTS), ("Instructions that exist", _RULES)):
        if found := [name for name in names if os.path.lexists(root / name)]:
            facts.append(f"{title}: {', '.join(found)}")
    text = _PROMPT.format(file=FILE, root=root, facts="\n".join(facts))
    return f"{text}\n\nThe user adds: {wish}" if wish else text


def _names(root: Path) -> list[str]:
    try:
        with os.scandir(root) as entries:
            names = sorted(f"{entry.name}/" if entry.is_dir() else entry.name for entry in entries)
    except OSError:
        return ["(not readable)"]
    shown = [plain_line(name, 60) for name in names if name != ".git/"]
    more = [f"and {len(shown) - _MOST_NAMES} more"] if len(shown) > _MOST_NAMES else []
    return [*shown[:_MOST_NAMES], *more] or ["(nothing)"]
