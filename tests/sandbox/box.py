"""A project, a home with secrets, and a real sandbox around commands in the one that must not reach the other."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from agentcli.core.aio import AbortController
from agentcli.core.processes.installation import installation_paths
from agentcli.sandbox.linux.bubblewrap import BubblewrapLauncher
from agentcli.sandbox.linux.probe import Ability, probe
from agentcli.sandbox.plan import SandboxRules
from agentcli.tools.base import Output, ToolContext
from agentcli.tools.shell.bash import Bash
from agentcli.tools.shell.environment import child_environment

SECRET = "the very secret key"
KEY = "sk-never-in-a-child"


def ability_or_skip() -> Ability:
    ability = probe(os.environ, (), None)
    if not ability.works:
        pytest.skip(f"no sandbox to try to get out of: {ability.problem}")
    return ability


@dataclass(frozen=True)
class Box:
    root: Path
    ability: Ability
    changes: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def make(cls, root: Path, ability: Ability) -> Box:
        box = cls(root, ability)
        for folder in (box.home / ".ssh", box.home / ".config" / "agentcli", box.project, box.caches):
            folder.mkdir(parents=True)
        (box.home / ".ssh" / "id_ed25519").write_text(SECRET)
        (box.home / ".config" / "agentcli" / "settings.json").write_text(SECRET)
        (box.home / ".netrc").write_text(SECRET)
        (box.home / ".bashrc").write_text("# mine\n")
        (box.outside).mkdir()
        (box.outside / "file.txt").write_text("theirs\n")
        return box

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def project(self) -> Path:
        return self.root / "project"

    @property
    def outside(self) -> Path:
        return self.home / "other"

    @property
    def caches(self) -> Path:
        return self.root / "caches"

    @property
    def quarantine(self) -> Path:
        return self.root / "quarantine"

    @property
    def rules(self) -> SandboxRules:
        rules = SandboxRules(
            working_dirs=(self.project,),
            home=self.home,
            own_folders=(self.home / ".config" / "agentcli",),
            cache_dir=self.caches / "sandbox",
            installation=installation_paths(),
        )
        return replace(rules, **self.changes)

    def with_rules(self, **changes: Any) -> Box:
        return replace(self, changes={**self.changes, **changes})

    def launcher(self) -> BubblewrapLauncher:
        return BubblewrapLauncher(self.rules, self.ability, self.root, self.quarantine)

    def context(self, launcher: BubblewrapLauncher | None = None) -> ToolContext:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
        environ = {**os.environ, "HOME": str(self.home), "ANTHROPIC_API_KEY": KEY, "PATH": path}
        return ToolContext(
            cwd=self.project,
            working_dirs=(self.project,),
            environ=child_environment(environ),
            launcher=launcher or self.launcher(),
        )

    async def run(self, command: str, *, context: ToolContext | None = None) -> Output:
        outputs: list[Output] = []
        input = {"command": command}
        async with aclosing(Bash().run(input, context or self.context(), AbortController().signal)) as steps:
            outputs += [step async for step in steps if isinstance(step, Output)]
        (output,) = outputs
        return output

    async def text(self, command: str) -> str:
        output = await self.run(command)
        assert isinstance(output.content, str)
        return output.content

    async def run_each(self, commands: Sequence[str]) -> dict[str, Output]:
        """What each command prints to both streams, and whether it failed. All of them run in one sandbox, each in its
        own shell in the project; starting a sandbox takes longer than most commands."""
        folder = self.project / "results"
        folder.mkdir()
        shells = (
            f"({command}\n) > {folder}/{number} 2>&1; echo $? > {folder}/{number}.code"
            for number, command in enumerate(commands)
        )
        await self.run("\n".join(shells))
        found = {}
        for number, command in enumerate(commands):
            text = (folder / str(number)).read_text(errors="replace")
            found[command] = Output(text, is_error=(folder / f"{number}.code").read_text() != "0\n")
        shutil.rmtree(folder)
        return found

    def git(self, *arguments: str) -> str:
        """Outside of the sandbox, as the user would."""
        program = shutil.which("git") or "git"
        environ = {**os.environ, "HOME": str(self.home), "GIT_CONFIG_NOSYSTEM": "1"}
        identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
        done = subprocess.run(
            [program, *identity, *arguments], cwd=self.project, env=environ, capture_output=True, text=True, check=True
        )
        return done.stdout
