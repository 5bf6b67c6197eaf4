"""Caches of package tools inside the sandbox: writable, and separate from the user's own, which other projects trust.

There is one folder per repository and user, shared by the repository's worktrees, so that a new worktree does not start
with a cold cache. Other clones have their own: a clone can write whatever names its origin, and one project would run
what another project's commands put into a shared cache.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from agentcli.core.files.access import is_below
from agentcli.core.frozen import frozen
from agentcli.sandbox.plan import SandboxRules
from agentcli.sandbox.quarantine.protected import outermost, repositories
from agentcli.shell.paths import real_path

_VARIABLES = {
    "PIP_CACHE_DIR": "pip",
    "UV_CACHE_DIR": "uv",
    "GOCACHE": "go-build",
    "npm_config_cache": "npm",
    "YARN_CACHE_FOLDER": "yarn",
    "BUN_INSTALL_CACHE_DIR": "bun",
    "DENO_DIR": "deno",
    "GRADLE_USER_HOME": "gradle",
    "CCACHE_DIR": "ccache",
    "COMPOSER_CACHE_DIR": "composer",
    "NUGET_PACKAGES": "nuget",
    "PRE_COMMIT_HOME": "pre-commit",
    "SCCACHE_DIR": "sccache",
}
_NEEDED = (
    *("pypoetry/virtualenvs", "ms-playwright", "ms-playwright-go", "Cypress", "puppeteer", "selenium", "electron"),
    *("huggingface", "torch", "whisper", "node", "bazel", "bazelisk", "coursier", "prisma", "nix", "mise", "rattler"),
)
"""Parts of `~/.cache` that stay visible: environments, browsers and models, which are downloaded only once."""


def cache_folder(rules: SandboxRules) -> Path | None:
    """The folder for this repository's caches, created if missing; None if it cannot be created."""
    if rules.cache_dir is None or not rules.working_dirs:
        return None
    first = rules.working_dirs[0]
    around = repositories([first], rules.home)
    identity = outermost(around[0]) if around else first
    folder = rules.cache_dir / hashlib.sha256(os.fsencode(identity)).hexdigest()[:16]
    try:
        if not os.path.isdir(folder):  # noqa: PTH112 - before every command
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return None
    return folder


def cache_environment(cache: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Variables that point tools to the folder, except those that the user has set."""
    return {name: f"{cache}/{folder}" for name, folder in _VARIABLES.items() if name not in environ}


@frozen
class CacheFolders:
    """The caches of one command."""

    own: Path | None
    """The folder for this repository's caches, None if there is none."""
    covered: str | None
    """`~/.cache`, which a separate folder replaces for commands; None: commands see the real one."""

    @classmethod
    def find(cls, rules: SandboxRules) -> CacheFolders:
        return cls(cache_folder(rules), _home_cache(rules))

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Variables that point tools to the folder."""
        if self.own is None:
            return {}
        found = cache_environment(self.own, environ)
        if self.covered is None and "XDG_CACHE_HOME" not in environ:
            found["XDG_CACHE_HOME"] = f"{self.own}/home"
        return found

    def mounts(self) -> list[str]:
        """Arguments that mount a writable folder over `~/.cache`, with the needed parts of the user's own."""
        if self.own is None or self.covered is None:
            return []
        # Beside the cache, not in it: a command could replace anything in it by a link.
        folder = real_path(f"{self.own}-home")
        if not os.path.isdir(folder):  # noqa: PTH112
            os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103
        made = ["--bind", folder, self.covered]
        for name in _NEEDED:
            needed = f"{self.covered}/{name}"
            # Most are missing, which `access` detects faster than `isdir`.
            if not os.access(needed, os.F_OK) or not os.path.isdir(needed):  # noqa: PTH112
                continue
            # Bubblewrap would follow a link that a command left there, and create the link's target.
            if real_path(f"{folder}/{name}") == f"{folder}/{name}":
                made += ["--ro-bind", needed, needed]
        return made


def _home_cache(rules: SandboxRules) -> str | None:
    """`~/.cache`, resolved, if it is a folder that commands cannot write to anyway; otherwise None."""
    home = str(rules.home)
    if rules.home is None or is_below(home, map(str, rules.working_dirs)):
        return None
    own = real_path(f"{home}/.cache")
    if own == home or not is_below(own, (home,)) or not os.path.isdir(own):  # noqa: PTH112 - before every command
        return None
    return None if is_below(own, map(str, (*rules.working_dirs, *rules.allow_write, *rules.allow_read))) else own
