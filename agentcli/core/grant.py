"""Permissions of one approved command beyond the usual limits of its sandbox.

A value: decided by permissions, applied by a launcher, never changed in between.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from agentcli.core.frozen import frozen

NetworkAccess = Literal["default", "none", "hosts", "all"]
"""`default`: as in the settings. `hosts`: only `Grant.hosts`, through a proxy."""


Approval = Literal["mode", "rule", "answer"]
"""What allowed a call: the permission mode alone, a rule, or the user's answer."""


@frozen(kw_only=True)
class Grant:
    network: NetworkAccess = "default"
    hosts: tuple[str, ...] = ()
    """Host patterns for `network="hosts"`: `registry.npmjs.org`, `*.example.org`, `!x.example.org` to exclude one."""
    write: tuple[Path, ...] = ()
    """Files and folders outside the working directories that it may write."""
    variables: tuple[str, ...] = ()
    """Environment variables with credentials that it gets."""
    opened_names: tuple[Path, ...] = ()
    """Protected names that the user approved a write to."""
    guards_obeyed_names: bool = False
    """The user did not see this command: it must not change files that hooks, editors, builds and package managers
    obey."""
    reads_only: bool = False
    """It was proven to be read-only: its sandbox lets it change nothing and has no network, so that a wrong proof does
    no harm, and git runs no hooks and helpers for it."""
    keeps_repository: bool = False
    """Git's folder stays read-only although the command names git: other programs run in it, and undo does not cover
    that folder."""
    uncovered: tuple[Path, ...] = ()
    """Paths in the working directories that stay read-only, because undo does not cover them and nobody approved the
    command."""
    git_settings: bool = False
    """It may change the repository's own git configuration."""


ORDINARY = Grant()
