"""Test whether bubblewrap works on this machine. The result is cached until the next boot.

It depends on kernel settings, the container and the user, so a trial run decides. The trial takes 10 ms, the cached
answer 0.1 ms.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agentcli.core.files.access import parse_json, read_bounded
from agentcli.core.frozen import frozen
from agentcli.core.processes.own_programs import find_program, run_program
from agentcli.sandbox.linux.seccomp import is_supported, seccomp_filter

CACHE_FILE = "sandbox.json"
_SECONDS = 5.0
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

ROOT_CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "SETGID", "SETUID")
"""Capabilities that root keeps: enough to work on other users' files, but not enough to undo a mount."""


@frozen
class Ability:
    """Capabilities of bubblewrap on this machine."""

    program: str = ""
    privileges: tuple[str, ...] = ()
    """Arguments for the current user's privileges."""
    network: bool = False
    lockdown: tuple[str, ...] = ()
    """Arguments that disable user namespaces inside; empty if unsupported."""
    seccomp: bool = False
    """Whether system calls can be filtered."""
    problem: str = ""
    """Why it does not work, and what to do."""

    @property
    def works(self) -> bool:
        return not self.problem


def probe(environ: Mapping[str, str], working_dirs: Iterable[Path], cache_dir: Path | None) -> Ability:
    """Test bubblewrap, or return the cached result. Never raises."""
    program = find_program("bwrap", environ.get("PATH"), working_dirs)
    if program is None:
        return Ability(problem="bubblewrap (bwrap) is not installed. Install it, for example: apt install bubblewrap.")
    key = _key(program)
    remembered = _recall(cache_dir, key)
    if remembered is not None:
        return remembered
    ability = try_out(program)
    if cache_dir is not None and key and ability.works:
        _remember(cache_dir, key, ability)
    return ability


def try_out(program: str) -> Ability:
    problem = ""
    for privileges in _privileges():
        problem = _attempt(program, privileges)
        if problem:
            continue
        network = not _attempt(program, (*privileges, "--unshare-net"))
        lockdown: tuple[str, ...] = ("--unshare-user", "--disable-userns")
        if _attempt(program, (*privileges, *lockdown)):
            lockdown = ()
        seccomp = is_supported() and not _attempt(program, privileges, seccomp_filter(network=False, strict=True))
        return Ability(program, privileges, network, lockdown, seccomp)
    return Ability(program, problem=f"bubblewrap does not work here: {problem}. {_advice(problem)}")


def _privileges() -> list[tuple[str, ...]]:
    dropped = ("--cap-drop", "ALL")
    if os.geteuid() != 0:
        return [("--unshare-user", *dropped)]
    kept = tuple(word for name in ROOT_CAPABILITIES for word in ("--cap-add", f"CAP_{name}"))
    return [(*dropped, *kept), ("--unshare-user", *dropped)]


def _attempt(program: str, arguments: tuple[str, ...], filter: bytes = b"") -> str:
    """Try to run bubblewrap; return the problem, empty if it works."""
    reading = -1
    if filter:
        reading, writing = os.pipe()
        os.write(writing, filter)
        os.close(writing)
        arguments = (*arguments, "--seccomp", str(reading))
    base = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-pid", "--unshare-ipc")
    tail = ("--unshare-uts", "--tmpfs", "/run", "--die-with-parent", "--", "/bin/sh", "-c", ":")
    try:
        command = (program, *base, *arguments, *tail)
        passed = (reading,) if filter else ()
        environ = {"PATH": os.defpath}
        done = run_program(command, cwd="/", environ=environ, seconds=_SECONDS, pass_descriptors=passed)
    except OSError as error:
        return str(error)
    finally:
        if filter:
            os.close(reading)
    if done.code == 0:
        return ""
    text = done.errors.decode(errors="replace").strip().splitlines()
    return text[-1].removeprefix("bwrap: ").rstrip(".") if text else f"it ended with code {done.code}"


def _advice(problem: str) -> str:
    if "proc" in problem.lower():
        return "Start the container with access to /proc (for docker: --security-opt systempaths=unconfined)."
    return (
        "Unprivileged user namespaces have to be allowed: see kernel.unprivileged_userns_clone and, with AppArmor, "
        "kernel.apparmor_restrict_unprivileged_userns; in docker, --security-opt seccomp=unconfined."
    )


def _key(program: str) -> str:
    """Cache key from everything known to affect the answer."""
    try:
        stat = Path(program).stat()
        boot = _BOOT_ID.read_text().strip()
        namespace = Path("/proc/self/ns/user").readlink(), Path("/proc/self/ns/mnt").readlink()
    except OSError:
        return ""
    return f"2 {boot} {os.geteuid()} {program} {stat.st_size} {stat.st_mtime_ns} {namespace}"


def _recall(cache_dir: Path | None, key: str) -> Ability | None:
    if cache_dir is None or not key:
        return None
    try:
        stored = parse_json(read_bounded(cache_dir / CACHE_FILE, 65_536) or b"{}")
        if stored.pop("key") != key:
            return None
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in stored.items()
        }
        return Ability(**values)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _remember(cache_dir: Path, key: str, ability: Ability) -> None:
    fresh = cache_dir / f"{CACHE_FILE}.{os.getpid()}"
    with contextlib.suppress(OSError):
        cache_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh.write_text(json.dumps({"key": key, **asdict(ability)}))
        fresh.replace(cache_dir / CACHE_FILE)
