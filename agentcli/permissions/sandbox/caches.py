"""Caches of package tools inside the sandbox: writable, and separate from the user's own, which other projects trust.

One folder for each repository of a user, shared by its worktrees, so that a new worktree does not start cold. Other
clones have their own: whatever names a clone's origin can be written by the clone, and what one project's commands put
into a shared cache another project would run.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from agentcli.permissions.sandbox.plan import SandboxRules
from agentcli.permissions.sandbox.planted.protected import outermost, repositories

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
    """The folder for this repository's caches, created if missing; None if that is impossible."""
    if rules.cache_dir is None or not rules.working_dirs:
        return None
    first = rules.working_dirs[0]
    around = repositories([first], rules.home)
    identity = outermost(around[0]) if around else first
    folder = rules.cache_dir / hashlib.sha256(os.fsencode(identity)).hexdigest()[:16]
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return None
    return folder


def cache_environment(cache: Path, environ: Mapping[str, str], rules: SandboxRules | None = None) -> dict[str, str]:
    """Variables that point tools to the folder, except those that the user has set."""
    found = {name: str(cache / folder) for name, folder in _VARIABLES.items() if name not in environ}
    if rules is not None and "XDG_CACHE_HOME" not in environ and _home_cache(rules) is None:
        found["XDG_CACHE_HOME"] = str(cache / "home")
    return found


def cache_mounts(rules: SandboxRules, cache: Path | None) -> list[str]:
    """Arguments that mount a writable folder over `~/.cache`, with the needed parts of the user's own."""
    own = _home_cache(rules)
    if cache is None or own is None:
        return []
    # Beside the cache, not in it: a command could replace anything in it by a link.
    folder = os.path.realpath(cache.with_name(f"{cache.name}-home"))
    os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103
    made = ["--bind", folder, str(own)]
    for name in _NEEDED:
        if not os.path.isdir(f"{own}/{name}"):  # noqa: PTH112 - before every command
            continue
        # Bubblewrap would follow a link that a command left there, and create what it leads to.
        if os.path.realpath(f"{folder}/{name}") == f"{folder}/{name}":
            made += ["--ro-bind", f"{own}/{name}", f"{own}/{name}"]
    return made


def _home_cache(rules: SandboxRules) -> Path | None:
    """`~/.cache`, if it is a folder that commands could not write to anyway."""
    if rules.home is None or any(rules.home.is_relative_to(folder) for folder in rules.working_dirs):
        return None
    own = Path(os.path.realpath(rules.home / ".cache"))
    usable = own.is_dir() and own.is_relative_to(rules.home) and own != rules.home
    inside = (*rules.working_dirs, *rules.allow_write, *rules.allow_read)
    return own if usable and not any(path == own or own.is_relative_to(path) for path in inside) else None
