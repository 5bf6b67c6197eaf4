"""Explain from a command's output whether the sandbox made it fail, and what the user can do about it.

This is a guess, so messages say "looks like". No permission depends on it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from agentcli.core.frozen import frozen
from agentcli.core.text.plaintext import plain_line
from agentcli.sandbox.plan import SandboxRules
from agentcli.sandbox.session_folder import SYSTEM_TEMP
from agentcli.shell.paths import is_protected

_MAX_TEXT = 20_000
_WHERE = re.compile(r"^[^\s:]+: (?:eval: )?(?:line )?\d+: ")
"""Prefix of shell messages: a program or script, not the refused path."""
_SURELY = re.compile(
    r"^[^\s:][^\n:]*: [^\n]*Read-only file system(?:: '[^'\n]*')?$"
    r"|^(?:\w*(?:Error|Exception)|npm ERR!|npm error)[^\n]*(?:EROFS|\[Errno 30\]|Read-only file system)"
    r"|^(?:curl|ssh|wget|fatal|ping|\w*Error|\w+\.gaierror): [^\n]*(?:(?:could not|unable to) resolve|name resolution"
    r"|Name or service not known|Network is unreachable)",
    re.IGNORECASE | re.MULTILINE,
)
"""Lines that are clearly error messages, even if the command reports success."""
_NOT_ADDED = re.compile(r"^error: (?:'|\")?(.+?)(?:'|\")?: can only add regular files", re.MULTILINE)
_READ_ONLY = re.compile(r"Read-only file system|EROFS|\[Errno 30\]|os error 30\b", re.IGNORECASE)
_IN_THE_WAY = re.compile(r"Device or resource busy|EBUSY|\[Errno 16\]|Is a directory|EISDIR|\[Errno 21\]|os error 21\b")
"""Errors for a path that is a mount point."""
_REFUSED = re.compile(r"Permission denied|EACCES|\[Errno 13\]|os error 13\b|publickey|Host key verification failed")
_NO_NETWORK = re.compile(
    r"could ?n[o']t resolve|Could not resolve|Temporary failure in name resolution|Network is unreachable|ENETUNREACH"
    r"|EAI_AGAIN|\bENOTFOUND\b|getaddrinfo|Name or service not known|Failed to establish a new connection|no such host"
    r"|dial tcp|network error",
    re.IGNORECASE,
)
_LOOPBACK = r"(?:\blocalhost\b|\b127\.0\.0\.\d+|::1\b|0\.0\.0\.0)"
_NOT_CONNECTED = r"(?:connect|refused|unreachable|establish)"
_NO_LOOPBACK_SERVER = re.compile(
    rf"^[^\n]*(?:{_LOOPBACK}[^\n]*{_NOT_CONNECTED}|{_NOT_CONNECTED}[^\n]*{_LOOPBACK})[^\n]*$",
    re.IGNORECASE | re.MULTILINE,
)
_LOOPBACK_REFUSED = re.compile(r"Connection refused|ECONNREFUSED|\[Errno 111\]|os error 111\b", re.IGNORECASE)
"""Errors for a server on this machine: commands without network have their own loopback interface."""
_HELPERS = re.compile(r"docker daemon|docker\.sock|podman\.sock|system_bus_socket|session bus|D-Bus|systemd/private")
_PRIVILEGES = re.compile(r"no new privileges|must be run as root|sudo: |effective uid is not 0", re.IGNORECASE)
_PATH = re.compile(
    r"""(?:["'‘`]|(?<![\w./-]))((?:~|/|\.{1,2}/|\.(?=\w))[^\s"'‘’`:;,()<>|*]*|[\w.-]+/[^\s"'‘’`:;,()<>|*]*)"""
)
_MISSING = re.compile(
    r"^[^\n]*(?:No such file or directory|ENOENT|\[Errno 2\]|os error 2\b|cannot find|not found)[^\n]*$", re.MULTILINE
)
_HIDDEN = ("/tmp/", "/var/tmp/", "/run/", "/var/run/")  # noqa: S108 - names that commands use


@frozen
class Refusals:
    """The paths and limits that the sandbox enforces."""

    rules: SandboxRules
    masked: tuple[Path, ...]
    network: bool
    temporary: Path | None = None
    """The folder that commands see as `/tmp`; None: the machine's own."""
    keeps_repository: bool = False
    """See `Grant.keeps_repository`."""
    uncovered: tuple[Path, ...] = ()
    """See `Grant.uncovered`."""


def worth_explaining(code: int, output: str) -> bool:
    """Whether to explain the output. After success only clear errors count, which a pipe or `; true` may hide."""
    return code != 0 or _SURELY.search(output[-_MAX_TEXT:]) is not None


def names_missing_network(output: str) -> bool:
    return _NO_NETWORK.search(_NO_LOOPBACK_SERVER.sub("", output[-_MAX_TEXT:])) is not None


def explain(output: str, refusals: Refusals) -> str | None:
    text = output[-_MAX_TEXT:]
    for guess in (_find_tracked, _write, _secret, _net, _helper, _privilege, _hidden):
        sentence = guess(text, refusals)
        if sentence is not None:
            return f"Sandbox: {sentence}"
    return None


def _write(text: str, refusals: Refusals) -> str | None:
    lines = [line for line in text.splitlines() if _READ_ONLY.search(line) or _IN_THE_WAY.search(line)]
    if not lines:
        return None
    path = _first_path(lines, refusals)
    shown = plain_line(path, 200) if path else "a path"
    if path and any(Path(path).is_relative_to(part) for part in refusals.rules.installation):
        return (
            f"{shown} is part of the installation that runs agentcli, or of the user's own configuration of it, or a "
            "hook or server runs it outside of the sandbox, so commands cannot change it. Use another environment "
            "(python3 -m venv), use Edit, or ask the user to run the command in their own terminal."
        )
    if refusals.keeps_repository and lines[0].startswith(("fatal: ", "error: ")):
        return "git's own folder is read-only in a command that also runs other programs. Run git in its own command."
    if kept := next((part for part in refusals.uncovered for line in lines if part.name in line), None):
        return (
            f"undo does not cover {plain_line(str(kept), 200)}, so a command that nobody approved cannot change it. "
            "Name it in the command, so that the user is asked."
        )
    inside = any(Path(path).is_relative_to(folder) for folder in refusals.rules.working_dirs)
    if path and inside and is_protected(path):
        protected = f"{shown} is protected: other programs run or obey what is in it, so commands cannot change it."
        if not refusals.rules.can_ask:
            return f"{protected} Leave it as it is and tell the user in your answer what to change there."
        return (
            f"{protected} Use Write or Edit, which ask the user, or ask them to run the command or to add it to "
            "sandbox.excludedCommands."
        )
    if not any(_READ_ONLY.search(line) for line in lines):
        return None
    return (
        f"it looks like {shown} is outside of what commands may write: the working directories and $TMPDIR. Write "
        "there instead. The user can allow more with --add-dir or the setting sandbox.allowWrite."
    )


def _find_tracked(text: str, refusals: Refusals) -> str | None:
    """A path from git's error message, which is relative to the repository's root."""
    for found in _NOT_ADDED.finditer(text):
        if any(str(mask).endswith(f"/{found[1]}") for mask in refusals.masked):
            return (
                f"{plain_line(found[1], 200)} is kept from commands, so git cannot see whether it changed. Nothing was "
                "added. Name the paths to add, without it: not -A, -a or a dot."
            )
    return None


def _secret(text: str, refusals: Refusals) -> str | None:
    for line in text.splitlines():
        if not _REFUSED.search(line):
            continue
        if "publickey" in line or "Host key" in line:
            return (
                "commands cannot use SSH keys. Ask the user to run this themselves, or to add the command to the "
                "setting sandbox.excludedCommands."
            )
        for path in _paths(line, refusals):
            if any(Path(path).is_relative_to(mask) for mask in refusals.masked):
                return _explain_masked(path)
    return None


def _explain_masked(path: str) -> str:
    return (
        f"{plain_line(path, 200)} is kept from commands because it holds secrets or a rule denies reading it. The user "
        "can open it with the setting sandbox.allowRead."
    )


def _net(text: str, refusals: Refusals) -> str | None:
    if refusals.network:
        return None
    if names_missing_network(text):
        return (
            "commands have no network. Work with what is on this machine, or ask the user to allow a host with the "
            "rule Network(HOST)."
        )
    if _LOOPBACK_REFUSED.search(text) or _NO_LOOPBACK_SERVER.search(text):
        return (
            "each command has its own network, also for localhost, and cannot reach servers of other commands or of "
            "the machine. Run the server and its client in one command."
        )
    return None


def _helper(text: str, _refusals: Refusals) -> str | None:
    if not _HELPERS.search(text):
        return None
    return (
        "commands cannot talk to services such as docker, which act outside of the sandbox. Ask the user to run this, "
        "or to add the command to the setting sandbox.excludedCommands."
    )


def _privilege(text: str, _refusals: Refusals) -> str | None:
    if not _PRIVILEGES.search(text):
        return None
    return "commands cannot gain privileges (sudo, su). Ask the user to run this themselves."


def names_missing_file(output: str) -> bool:
    return _MISSING.search(output[-_MAX_TEXT:]) is not None


def explain_missing(output: str, refusals: Refusals) -> str | None:
    """Explain a successful command whose output names an existing file that the sandbox hides."""
    sentence = _hidden(output[-_MAX_TEXT:], refusals)
    return f"Sandbox: {sentence}" if sentence else None


def _hidden(text: str, refusals: Refusals) -> str | None:
    """Explain a file that exists on the machine but is hidden from commands, which report it as missing."""
    for found in _MISSING.finditer(text):
        for path in _paths(found[0], refusals):
            masked = any(Path(path).is_relative_to(mask) for mask in refusals.masked)
            hidden = refusals.temporary is not None and path.startswith(_HIDDEN)
            if not (masked or hidden) or not os.path.lexists(path):
                continue
            if any(Path(path).is_relative_to(folder) for folder in refusals.rules.working_dirs) and not masked:
                continue
            shown = plain_line(path, 200)
            if masked:
                return _explain_masked(path)
            if path.startswith(("/run/", "/var/run/")):
                return f"{shown} exists but is hidden from commands: services there act outside of the sandbox."
            return (
                f"{SYSTEM_TEMP} is this session's own folder for commands, so {shown} of the machine is not in it. "
                "Copy the file into the working directory."
            )
    return None


def _first_path(lines: Iterable[str], refusals: Refusals) -> str:
    found = [path for line in lines for path in _paths(line, refusals)]
    return next((path for path in found if is_protected(path)), found[0] if found else "")


def _paths(line: str, refusals: Refusals) -> list[str]:
    """Absolute paths in a line; relative names are taken as below the first working directory."""
    found = []
    for match in _PATH.finditer(_WHERE.sub("", line)):
        path = match[1].rstrip(".") or match[1]
        if path.startswith("~") and refusals.rules.home is not None:
            path = str(refusals.rules.home) + path[1:]
        if not path.startswith("/") and refusals.rules.working_dirs:
            path = os.path.normpath(refusals.rules.working_dirs[0] / path)
        found.append(path)
    return found
