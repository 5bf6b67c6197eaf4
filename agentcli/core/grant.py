"""What one approved command may do beyond the ordinary limits of its sandbox. A value: decided by permissions, applied
by a launcher, never changed on the way."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from agentcli.core.frozen import frozen

NetworkAccess = Literal["default", "none", "hosts", "all"]
"""`default`: what the settings say. `hosts`: only `Grant.hosts`, through a proxy."""


Approval = Literal["mode", "rule", "answer"]
"""What allowed a call: the permission mode alone, a rule, or the user's answer to a question."""


@frozen(kw_only=True)
class Grant:
    network: NetworkAccess = "default"
    hosts: tuple[str, ...] = ()
    """Host patterns for `network="hosts"`: `registry.npmjs.org`, `*.example.org`, `!x.example.org` to exclude one."""
    write: tuple[Path, ...] = ()
    """Files and folders outside the working directories that it may write."""
    variables: tuple[str, ...] = ()
    """Names of environment variables with credentials that it gets."""
    opened_names: tuple[Path, ...] = ()
    """Protected names that the user approved a write to."""
    guards_obeyed_names: bool = False
    """Nobody saw this command: files that hooks, editors, builds and package managers obey stay as they are."""
    reads_only: bool = False
    """It was proven to be read-only; git then runs no hook and no helper for it."""
    git_settings: bool = False
    """It may change the repository's own git configuration."""


ORDINARY = Grant()
