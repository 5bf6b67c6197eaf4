"""Choose the sandbox of a session. It is never silently weaker than requested.

off: none. on: the strongest available, with a warning if there is none. strict: no network and fewer kernel interfaces;
if that is not available, the session does not start.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal, cast

from agentcli.core.errors import UsageError
from agentcli.core.frozen import frozen
from agentcli.core.processes.launch import Launcher
from agentcli.sandbox.linux.bubblewrap import BubblewrapLauncher
from agentcli.sandbox.linux.probe import Ability, probe
from agentcli.sandbox.plan import SandboxRules
from agentcli.sandbox.session_folder import UnsandboxedLauncher, remove_leftovers

SandboxMode = Literal["off", "on", "strict"]
_DETAILS = "Run `agentcli doctor` for details, or use --sandbox off to hide this message."


@frozen
class SandboxChoice:
    launcher: Launcher
    problem: str = ""
    """Warning: what is not protected, and how to change that."""
    advice: str = ""
    """What the user can do about the problem during a session."""


@frozen(kw_only=True)
class SandboxEnvironment:
    environ: Mapping[str, str]
    temp_root: Path
    cache_dir: Path | None
    quarantine: Path | None = None
    platform: str = sys.platform


def choose(mode: str, rules: SandboxRules, around: SandboxEnvironment) -> SandboxChoice:
    """Choose a sandbox. Raises `UsageError` if `strict` is not available."""
    remove_leftovers(around.temp_root)
    wanted = cast(SandboxMode, mode)
    if wanted == "off":
        return SandboxChoice(UnsandboxedLauncher(around.temp_root))
    strict = wanted == "strict"
    if strict:
        rules = replace(rules, strict=True, network=False)
    if around.platform == "darwin":
        return _seatbelt(rules, around)
    if not around.platform.startswith("linux"):
        return _none(strict, "No sandbox is available for this system.", around)
    ability = probe(around.environ, (*rules.working_dirs, *rules.allow_write), around.cache_dir)
    if not ability.works:
        return _none(strict, ability.problem, around)
    return _bubblewrap(rules, ability, around)


def _bubblewrap(rules: SandboxRules, ability: Ability, around: SandboxEnvironment) -> SandboxChoice:
    problem = ""
    if rules.strict and not ability.seccomp:
        raise UsageError(
            "--sandbox strict needs system call filters (seccomp), which do not work here. Use --sandbox on."
        )
    if not rules.network and not ability.network:
        if rules.strict:
            raise UsageError("--sandbox strict needs a sandbox without network, which bubblewrap cannot give here.")
        problem = "Commands have network access, although the settings turn it off: bubblewrap cannot block it here."
        rules = replace(rules, network=True)
    launcher = BubblewrapLauncher(rules, ability, around.temp_root, around.quarantine)
    return SandboxChoice(launcher, problem)


def _seatbelt(rules: SandboxRules, around: SandboxEnvironment) -> SandboxChoice:
    from agentcli.sandbox.seatbelt import PROGRAM, SeatbeltLauncher

    if not Path(PROGRAM).exists():
        return _none(rules.strict, f"{PROGRAM} was not found.", around)
    return SandboxChoice(SeatbeltLauncher(rules, around.temp_root))


def _none(strict: bool, problem: str, around: SandboxEnvironment) -> SandboxChoice:
    if strict:
        raise UsageError(f"--sandbox strict needs a sandbox that works. {problem}")
    return SandboxChoice(
        UnsandboxedLauncher(around.temp_root, "not available"),
        f"Commands run without a sandbox. {problem}",
        _DETAILS,
    )
