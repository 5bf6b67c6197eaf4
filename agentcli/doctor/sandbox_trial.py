"""Proof of what the sandbox holds: it is asked to let through what it must not, and what came of it is looked at.

Everything happens in a scratch folder of its own; nothing of the person's is touched, whatever the outcome.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from agentcli.core.frozen import frozen
from agentcli.core.launch import Launcher
from agentcli.core.own_programs import run_program
from agentcli.permissions.sandbox.bubblewrap import BubblewrapLauncher
from agentcli.permissions.sandbox.seatbelt import SeatbeltLauncher

_SECONDS = 10.0


@frozen
class Proof:
    what: str
    """As it should be: `a write outside is refused`."""
    holds: bool


def prove(launcher: Launcher, environ: Mapping[str, str], root: Path) -> list[Proof]:
    """`root`: a private folder that commands may not write to. Raises OSError when nothing can be made there."""
    if not isinstance(launcher, BubblewrapLauncher | SeatbeltLauncher):
        return []
    scratch = Path(os.path.realpath(tempfile.mkdtemp(prefix="doctor-", dir=root)))
    try:
        return _Trial(scratch, launcher, environ).proofs()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


class _Trial:
    def __init__(
        self, scratch: Path, launcher: BubblewrapLauncher | SeatbeltLauncher, environ: Mapping[str, str]
    ) -> None:
        self._project = scratch / "project"
        self._outside = scratch / "outside"
        self._secret = scratch / "secret"
        for folder in (self._project, self._outside, self._secret):
            folder.mkdir()
        self._launcher = launcher.retargeted((self._project,), (self._secret,))
        self._environ = environ
        self._network = self._launcher.network

    def proofs(self) -> list[Proof]:
        token = os.urandom(8).hex()
        (self._secret / "key").write_text(token)
        works = self._run("echo made > inside && cat inside")
        self._run(f"echo planted > '{self._outside}/file'")
        read = self._run(f"cat '{self._secret}/key'")
        self._run("echo planted > .envrc; mkdir -p .vscode; echo planted > .vscode/tasks.json")
        found = [
            Proof("a command works, and writes in its folder", "made" in works and (self._project / "inside").exists()),
            Proof("a write outside is refused", not (self._outside / "file").exists()),
            Proof("a secret cannot be read", token not in read),
            Proof("files that other programs run cannot be planted", not self._planted()),
        ]
        if isinstance(self._launcher, BubblewrapLauncher):
            seen = self._run(f"ls -d /proc/{os.getpid()} 2>/dev/null; echo looked")
            found.append(Proof("other processes are not seen", seen.strip() == "looked"))
        if not self._network:
            listed = self._run("cat /proc/net/route 2>/dev/null | wc -l; echo looked")
            found.append(Proof("there is no network", listed.split() in (["1", "looked"], ["0", "looked"])))
        return found

    def _planted(self) -> bool:
        return (self._project / ".envrc").is_file() or (self._project / ".vscode" / "tasks.json").exists()

    def _run(self, command: str) -> str:
        launch = self._launcher.launch(["/bin/sh", "-c", command], self._project, self._environ)
        try:
            done = run_program(
                launch.arguments,
                cwd=self._project,
                environ=launch.environ,
                seconds=_SECONDS,
                pass_descriptors=launch.pass_descriptors,
            )
        except TimeoutError:
            return ""
        finally:
            launch.close()
        return done.output.decode(errors="replace")
