"""What `agentcli doctor` looks at. Each check says how it is, and what to do if it is not as it should be.

Nothing is changed and, unless asked for, nobody is contacted; keys are never read out, only where they come from.
"""

from __future__ import annotations

import os
import platform
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from agentcli import __version__
from agentcli.assemble import Options, sandbox_for, settings_for
from agentcli.assemble.ground import Ground
from agentcli.cli.doctor_sandbox import prove
from agentcli.config.paths import Paths
from agentcli.config.settings import Settings
from agentcli.core.errors import AgentError
from agentcli.core.frozen import frozen
from agentcli.core.plaintext import plain_line
from agentcli.core.programs import find_program
from agentcli.tools.environment import child_environment
from agentcli.tools.ripgrep import find_ripgrep

Status = Literal["ok", "warn", "fail"]
_LEAST_FREE = 200_000_000
_FEW_WATCHES = 8_192
_SECONDS = 5.0


@frozen
class Finding:
    status: Status
    name: str
    text: str
    advice: str = ""


def examine(options: Options, environ: Mapping[str, str], *, online: bool) -> Iterator[Finding]:
    """Never raises: a check that breaks is itself a finding."""
    patient = _Patient(options, environ)
    checks: list[Callable[[], Iterator[Finding]]] = [
        patient.versions,
        patient.programs,
        patient.terminal,
        patient.configuration,
        patient.key,
        patient.folders,
        patient.sandbox,
        patient.watches,
    ]
    if online:
        checks.append(patient.endpoint)
    for check in checks:
        try:
            yield from check()
        except (AgentError, OSError, subprocess.SubprocessError) as error:
            yield Finding("fail", check.__name__, plain_line(str(error), 400))


class _Patient:
    def __init__(self, options: Options, environ: Mapping[str, str]) -> None:
        self._options = options
        self._environ = environ
        self._paths = Paths.from_environ(environ)

    def _settings(self) -> Settings:
        return settings_for(self._options)

    def versions(self) -> Iterator[Finding]:
        yield Finding("ok", "agentcli", __version__)
        text = f"{platform.python_version()} ({sys.executable}), {platform.system()} {platform.release()}"
        yield Finding("ok", "python", plain_line(text, 300))

    def programs(self) -> Iterator[Finding]:
        path, folders = self._environ.get("PATH"), Ground(self._options).working_dirs
        needed = {
            "git": (
                find_program("git", path, folders),
                "Install git: without it there is no undo, and no branch is shown.",
            ),
            "ripgrep": (
                find_ripgrep(self._environ, folders),
                "Install ripgrep, or reinstall agentcli, which brings it along.",
            ),
            "bash": (
                find_program("bash", path, folders),
                "Install bash: commands are run by it; sh is used instead.",
            ),
        }
        for name, (found, advice) in needed.items():
            if found is None:
                yield Finding("fail" if name == "ripgrep" else "warn", name, "not found", advice)
            else:
                yield Finding("ok", name, f"{_version(found)} ({found})")

    def terminal(self) -> Iterator[Finding]:
        kind = self._environ.get("TERM", "")
        encoding = (sys.stdout.encoding or "").lower().replace("-", "")
        size = shutil.get_terminal_size()
        where = "a terminal" if sys.stdout.isatty() else "no terminal"
        colour = "NO_COLOR" if self._environ.get("NO_COLOR") else self._environ.get("COLORTERM") or "plain colours"
        text = plain_line(f"{where}, TERM={kind or 'unset'}, {size.columns}x{size.lines}, {colour}, {encoding}", 200)
        if encoding != "utf8":
            yield Finding("warn", "terminal", text, "Set a UTF-8 locale, for example LANG=C.UTF-8.")
        elif sys.stdout.isatty() and kind in ("", "dumb"):
            yield Finding("warn", "terminal", text, "Set TERM to what your terminal is, for example xterm-256color.")
        else:
            yield Finding("ok", "terminal", text)

    def configuration(self) -> Iterator[Finding]:
        settings = self._settings()
        for problem in settings.problems:
            status: Status = "warn" if problem.level == "warning" else "ok"
            yield Finding(status, "settings", plain_line(problem.text, 600))
        if not settings.problems:
            yield Finding("ok", "settings", "no problems; `agentcli config` shows each value and where it is from")

    def key(self) -> Iterator[Finding]:
        settings = self._settings()
        if settings.text("provider") == "scripted":
            yield Finding("ok", "key", "none is needed: the scripted model answers")
            return
        if (cloud := settings.text("platform") or "anthropic") != "anthropic":
            yield Finding("ok", "key", f"by {cloud}'s own credentials")
            return
        from agentcli.providers.credentials import resolve_credentials

        environ = {**self._environ, **settings.mapping("env")}
        try:
            found = resolve_credentials(environ, settings.text("apiKeyHelper"), settings.text("baseUrl"))
        except AgentError as error:
            yield Finding("fail", "key", plain_line(str(error), 300))
            return
        source = f"from {found.source}" if found.source else "none, which the server may accept"
        yield Finding("ok", "key", plain_line(f"{source}; requests go to {found.base_url}", 300))

    def folders(self) -> Iterator[Finding]:
        for name, folder in (
            ("configuration", self._paths.config_dir),
            ("state", self._paths.state_dir),
            ("cache", self._paths.cache_dir),
        ):
            if folder is None:
                yield Finding("warn", name, "there is no folder for it", "Set HOME, else nothing is kept.")
                continue
            existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
            problem = _unwritable(existing)
            if problem:
                advice = f"Make {existing} writable, or name another folder: AGENTCLI_{_VARIABLES[name]}."
                yield Finding("warn", name, plain_line(f"{folder}: {problem}", 300), advice)
                continue
            free = shutil.disk_usage(existing).free
            text = plain_line(f"{folder}, {free / 1e9:.1f} GB free", 300)
            if free < _LEAST_FREE:
                yield Finding("warn", name, text, "Make room: sessions are not saved on a full disk.")
            else:
                yield Finding("ok", name, text)

    def sandbox(self) -> Iterator[Finding]:
        launcher, warning = sandbox_for(self._options)
        if launcher.name == "none":
            advice = "Use --sandbox on." if launcher.level == "off" else ""
            yield Finding(
                "warn", "sandbox", plain_line(warning or "off: commands can do whatever you can", 600), advice
            )
            return
        root = self._paths.cache_dir or Path(tempfile.gettempdir())
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        proofs = prove(launcher, child_environment(self._environ), root)
        for proof in proofs:
            if not proof.holds:
                yield Finding("fail", "sandbox", f"does not hold: {proof.what}", "Do not rely on it here; tell us.")
        if all(proof.holds for proof in proofs):
            tried = "; ".join(proof.what for proof in proofs)
            yield Finding("warn" if warning else "ok", "sandbox", f"{launcher.level}. Tried: {tried}.", warning)

    def watches(self) -> Iterator[Finding]:
        limit = Path("/proc/sys/fs/inotify/max_user_watches")
        if not limit.exists():
            return
        count = int(limit.read_text())
        if count < _FEW_WATCHES:
            advice = "Raise it: sysctl fs.inotify.max_user_watches=524288. Until then changes are found by looking."
            yield Finding("warn", "file watcher", f"only {count} folders can be watched", advice)
        else:
            yield Finding("ok", "file watcher", f"inotify, up to {count} folders")

    def endpoint(self) -> Iterator[Finding]:
        settings = self._settings()
        from agentcli.providers.credentials import PUBLIC_BASE_URL

        url = self._environ.get("ANTHROPIC_BASE_URL") or settings.text("baseUrl") or PUBLIC_BASE_URL
        proxy = self._environ.get("HTTPS_PROXY") or self._environ.get("https_proxy") or ""
        parts = urlsplit(proxy if proxy and url.startswith("https") else url)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        began = time.monotonic()
        try:
            with socket.create_connection((host, port), timeout=_SECONDS) as connection:
                if parts.scheme == "https":
                    with ssl.create_default_context().wrap_socket(connection, server_hostname=host):
                        pass
        except OSError as error:
            yield Finding("fail", "endpoint", plain_line(f"{host}:{port}: {error}", 300), "Check network and proxy.")
            return
        taken = (time.monotonic() - began) * 1000
        yield Finding("ok", "endpoint", f"{'proxy ' if proxy else ''}{host}:{port} answers, {taken:.0f} ms")


_VARIABLES = {"configuration": "CONFIG_DIR", "state": "STATE_DIR", "cache": "CACHE_DIR"}


def _version(program: str) -> str:
    done = subprocess.run(  # noqa: S603 - found on the person's own PATH
        [program, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False, cwd="/"
    )
    lines = done.stdout.decode(errors="replace").splitlines()
    return plain_line(lines[0], 100) if lines else "version unknown"


def _unwritable(folder: Path) -> str:
    """Empty if a file can be made in it."""
    try:
        descriptor, name = tempfile.mkstemp(prefix=".doctor-", dir=folder)
    except OSError as error:
        return error.strerror or "cannot be written to"
    os.close(descriptor)
    Path(name).unlink()
    return ""
