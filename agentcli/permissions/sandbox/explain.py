"""Whether a command failed because of the sandbox, and what a person can do about it. Text in, a sentence out.

A guess from the command's output, so it says "looks like"; it decides nothing. A second try with more rights is never
made by itself: the person allows it, or not.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from agentcli.core.frozen import frozen
from agentcli.core.plaintext import plain_line
from agentcli.permissions.paths import is_protected

_MOST_TEXT = 20_000
_WHERE = re.compile(r"^[^\s:]+: (?:eval: )?(?:line )?\d+: ")
"""What shells begin their messages with: a program or a script, which is not what was refused."""
_SURELY = re.compile(
    r"^[^\s:][^\n:]*: [^\n]*Read-only file system(?:: '[^'\n]*')?$"
    r"|^(?:curl|ssh|wget|fatal|ping|\w*Error|\w+\.gaierror): [^\n]*(?:(?:could not|unable to) resolve|name resolution"
    r"|Name or service not known|Network is unreachable)",
    re.IGNORECASE | re.MULTILINE,
)
"""Lines that are messages and not text that a command shows: enough where nothing else says that something failed."""
_NOT_ADDED = re.compile(r"^error: (?:'|\")?(.+?)(?:'|\")?: can only add regular files", re.MULTILINE)
_READ_ONLY = re.compile(r"Read-only file system|EROFS|\[Errno 30\]|os error 30\b", re.IGNORECASE)
_IN_THE_WAY = re.compile(r"Device or resource busy|EBUSY|\[Errno 16\]|Is a directory|EISDIR|\[Errno 21\]|os error 21\b")
"""Of a mount."""
_REFUSED = re.compile(r"Permission denied|EACCES|\[Errno 13\]|os error 13\b|publickey|Host key verification failed")
_NO_NETWORK = re.compile(
    r"could ?n[o']t resolve|Could not resolve|Temporary failure in name resolution|Network is unreachable|ENETUNREACH"
    r"|EAI_AGAIN|ENOTFOUND|getaddrinfo|Name or service not known|Failed to establish a new connection|no such host"
    r"|dial tcp|network error",
    re.IGNORECASE,
)
_LOOPBACK_REFUSED = re.compile(r"Connection refused|ECONNREFUSED|\[Errno 111\]|os error 111\b", re.IGNORECASE)
"""Of a server on this machine: commands without network have a loopback of their own."""
_HELPERS = re.compile(r"docker daemon|docker\.sock|podman\.sock|system_bus_socket|session bus|D-Bus|systemd/private")
_PRIVILEGES = re.compile(r"no new privileges|must be run as root|sudo: |effective uid is not 0", re.IGNORECASE)
_PATH = re.compile(
    r"""(?:["'‘`]|(?<![\w./-]))((?:~|/|\.{1,2}/|\.(?=\w))[^\s"'‘’`:;,()<>|*]*|[\w.-]+/[^\s"'‘’`:;,()<>|*]*)"""
)
_TEMPORARY = re.compile(
    r"(/(?:var/)?tmp/[^\s\"'‘’`:;,()]+)[^\n]{0,40}(?:No such file|cannot find|not found)|ENOENT[^\n]*?(/tmp/[^\s\"']+)"
)


@frozen(kw_only=True)
class Refusals:
    """What the sandbox refuses."""

    working_dirs: tuple[Path, ...]
    masked: tuple[Path, ...]
    home: Path | None
    network: bool
    temporary: Path | None
    writable: tuple[Path, ...] = ()
    installation: tuple[Path, ...] = ()


def worth_explaining(code: int, output: str) -> bool:
    """Of a command that ended well only what is clear: the end of a pipe, or `; true`, hides a failure."""
    return code != 0 or _SURELY.search(output[-_MOST_TEXT:]) is not None


def names_missing_network(output: str) -> bool:
    return _NO_NETWORK.search(output[-_MOST_TEXT:]) is not None


def explain(output: str, refusals: Refusals) -> str | None:
    text = output[-_MOST_TEXT:]
    for guess in (_tracked, _write, _secret, _net, _helper, _privilege, _temporary):
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
    if path and any(Path(path).is_relative_to(part) for part in refusals.installation):
        return (
            f"{shown} is part of the installation that runs agentcli, which commands cannot change. Make another "
            "environment (python3 -m venv) for the project, or ask the user to run the command in their own terminal."
        )
    if path and is_protected(path):
        return (
            f"{shown} is protected and cannot be changed by commands, since other programs run or obey what is in it. "
            "Use Write or Edit, which ask, or ask the person to run the command, or to list it in the setting "
            "sandbox.excludedCommands."
        )
    if not any(_READ_ONLY.search(line) for line in lines):
        return None
    return (
        f"it looks like {shown} is outside of what commands may write: the working directories and $TMPDIR. Write "
        "there instead. The person can allow more with --add-dir, the setting sandbox.allowWrite, or --sandbox off."
    )


def _tracked(text: str, refusals: Refusals) -> str | None:
    """Git names paths from the root of its repository, wherever that is."""
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
                "commands cannot use SSH keys. Ask the person to run this themselves, or to list the command in the "
                "setting sandbox.excludedCommands."
            )
        for path in _paths(line, refusals):
            if any(Path(path).is_relative_to(mask) for mask in refusals.masked):
                return (
                    f"{plain_line(path, 200)} is kept from commands because it holds secrets or a rule denies reading "
                    "it. The person can open it with the setting sandbox.allowRead."
                )
    return None


def _net(text: str, refusals: Refusals) -> str | None:
    if refusals.network or not _NO_NETWORK.search(text):
        return None
    return (
        "commands have no network here. Work with what is on this machine; the person can start with --sandbox on, or "
        "set sandbox.network to true."
    )


def _helper(text: str, _refusals: Refusals) -> str | None:
    if not _HELPERS.search(text):
        return None
    return (
        "commands cannot talk to services such as docker, which would do anything for them. The person can run it, or "
        "list the command in the setting sandbox.excludedCommands."
    )


def _privilege(text: str, _refusals: Refusals) -> str | None:
    if not _PRIVILEGES.search(text):
        return None
    return "commands cannot raise their rights (sudo, su). Ask the person to run this themselves."


def _temporary(text: str, refusals: Refusals) -> str | None:
    """Files that other tools or the person put there are not in the sandbox's own folder."""
    if refusals.temporary is None:
        return None
    for found in _TEMPORARY.finditer(text):
        path = found[1] or found[2]
        if os.path.lexists(path):
            return (
                f"commands have a temporary folder of their own, {refusals.temporary}, under the name of /tmp too; "
                f"{plain_line(path, 200)} outside of it is not there. Put the file into the working directory."
            )
    return None


def _first_path(lines: Iterable[str], refusals: Refusals) -> str:
    found = [path for line in lines for path in _paths(line, refusals)]
    return next((path for path in found if is_protected(path)), found[0] if found else "")


def _paths(line: str, refusals: Refusals) -> list[str]:
    """Absolute, as far as the text tells: relative names are below the first working directory."""
    found = []
    for match in _PATH.finditer(_WHERE.sub("", line)):
        path = match[1].rstrip(".") or match[1]
        if path.startswith("~") and refusals.home is not None:
            path = str(refusals.home) + path[1:]
        if not path.startswith("/") and refusals.working_dirs:
            path = os.path.normpath(refusals.working_dirs[0] / path)
        found.append(path)
    return found
