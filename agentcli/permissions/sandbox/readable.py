"""What sandboxed commands can read outside of the working directories, for the file tools in auto mode."""

from __future__ import annotations

from pathlib import Path

from agentcli.permissions.sandbox.plan import SandboxRules, find_masks
from agentcli.permissions.sandbox.secrets import holds_credentials

_OWN_IN_THE_SANDBOX = tuple(map(Path, ("/dev", "/proc", "/run", "/var/run", "/tmp", "/private/tmp", "/var/tmp")))  # noqa: S108
"""Folders that the sandbox has a version of its own of: the machine's is not what a command would read."""


def commands_can_read(rules: SandboxRules, real: str) -> bool:
    """Whether a sandboxed command could read a path without links and, of a folder, everything in it."""
    path = Path(real)
    if holds_credentials(real):
        return False
    masks = find_masks(rules)
    # Own folders may be made later, so they count whether they exist or not.
    hidden = (*_OWN_IN_THE_SANDBOX, *rules.own_folders, *rules.deny_read, *masks.all)
    return not any(path.is_relative_to(folder) or folder.is_relative_to(path) for folder in hidden)
