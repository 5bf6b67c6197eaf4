"""Paths outside the working directories that sandboxed commands can read, for file tools in auto mode."""

from __future__ import annotations

from pathlib import Path

from agentcli.sandbox.plan import SandboxRules, find_masks
from agentcli.sandbox.secrets import holds_credentials

_OWN_IN_THE_SANDBOX = tuple(map(Path, ("/dev", "/proc", "/run", "/var/run", "/tmp", "/private/tmp", "/var/tmp")))  # noqa: S108
"""Folders that the sandbox replaces with its own, so commands cannot read the machine's."""


def commands_can_read(rules: SandboxRules, real: str) -> bool:
    """Whether a sandboxed command can read a resolved path, including everything in a folder."""
    path = Path(real)
    if rules.home is not None and holds_credentials(real, str(rules.home)):
        return False
    masks = find_masks(rules)
    # agentcli's own folders count even before they exist.
    hidden = (*_OWN_IN_THE_SANDBOX, *rules.own_folders, *rules.deny_read, *masks.all)
    return not any(path.is_relative_to(folder) or folder.is_relative_to(path) for folder in hidden)
