"""Environment of child processes: variables known to be harmless, and those named in the settings.

All others are left out, whatever their name: a secret can have any name. A listed variable that contains a credential
anyway (a token in a proxy's URL, a key under a tool's prefix) is left out or cleaned.

| named by                              | passes                                                  |
|---------------------------------------|---------------------------------------------------------|
| `passed_variables.txt`                | unless its name or its value looks like a secret        |
| a pattern in `sandbox.env`, or `env`  | the same; `env` also serves agentcli's own requests     |
| its full name in `sandbox.env`        | always, except `_NEVER`                                 |
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from agentcli.core.files.access import read_start
from agentcli.core.frozen import frozen
from agentcli.core.text.secret_text import (
    assigns_secret,
    holds_secret,
    is_random,
    is_secret_name,
    proxy_without_credentials,
    without_url_credentials,
)

_ESSENTIAL = frozenset(
    {"PATH", "HOME", "PWD", "OLDPWD", "USER", "LOGNAME", "SHELL", "SHLVL"}
    | {"TMPDIR", "TMP", "TEMP", "LANG", "TZ", "TERM"}
)
"""Passed without checks: nothing works without them, and a folder name may look like a secret."""

_PROXIES = frozenset(
    name
    for base in ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "rsync_proxy")
    for name in (base, base.upper())
)

_MAX_LISTED_SIZE = 100_000
_NEVER = frozenset(
    {"BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "PROMPT_COMMAND", "PS4", "IFS", "CDPATH", "GLOBIGNORE", "EXECIGNORE"}
    | {"POSIXLY_CORRECT", "TAR_OPTIONS", "RIPGREP_CONFIG_PATH", "GREP_OPTIONS", "LESSOPEN", "LESSCLOSE", "COLUMNS"}
    | {"LINES", "LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES"}
)
"""Variables with code that a shell runs automatically, or options that change how it parses the approved command."""
_FUNCTION = "BASH_FUNC_"
"""Prefix of exported shell functions, which are never passed either."""
_SET = {
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    # An editor without a terminal hangs or fails; `true` accepts the prepared text unchanged.
    "GIT_EDITOR": "true",
    "GIT_SEQUENCE_EDITOR": "true",
    "SSH_ASKPASS_REQUIRE": "never",
}


@frozen
class PassedVariables:
    """Variables that the settings pass to commands, in addition to those listed here."""

    names: frozenset[str] = frozenset()
    """Names passed with any value."""
    patterns: tuple[str, ...] = ()
    """Name patterns, passed unless they look like a secret; `*` matches any characters."""

    @classmethod
    def from_settings(cls, named: Iterable[str], given: Iterable[str]) -> PassedVariables:
        """`named`: the setting `sandbox.env`; `given`: the variables in the setting `env`."""
        named = tuple(named)
        return cls(
            frozenset(name for name in named if "*" not in name),
            (*(name for name in named if "*" in name), *given),
        )


NO_FURTHER = PassedVariables()


def child_environment(environ: Mapping[str, str], passed: PassedVariables = NO_FURTHER) -> dict[str, str]:
    """The part of `environ` that commands get. Idempotent."""
    kept: dict[str, str] = {}
    listed, prefixes = _read_listed_variables()
    for name, value in environ.items():
        if name in _ESSENTIAL:
            kept[name] = value
        elif name in _NEVER or name.startswith(_FUNCTION):
            continue
        elif name in passed.names:
            kept[name] = value
        elif name in _PROXIES:
            kept[name] = proxy_without_credentials(value)
        elif name not in listed and (not _is_of_family(name, prefixes, passed.patterns) or is_secret_name(name)):
            continue
        elif (cleaned := _without_secrets(value)) is not None:
            kept[name] = cleaned
    return quiet_environment(kept)


def quiet_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment with pagers, editors and prompts turned off: a child has no terminal."""
    return {**environ, **_SET}


def _without_secrets(value: str) -> str | None:
    cleaned = without_url_credentials(value)
    if cleaned is None or holds_secret(cleaned) or assigns_secret(cleaned) or is_random(cleaned):
        return None
    return cleaned


@functools.cache
def _read_listed_variables() -> tuple[frozenset[str], tuple[str, ...]]:
    """The names in `passed_variables.txt`, and its prefixes."""
    lines = read_start(Path(__file__).with_name("passed_variables.txt"), _MAX_LISTED_SIZE).splitlines()
    words = [word for line in lines if not line.startswith("#") for word in line.split()]
    prefixes = tuple(word.removesuffix("*") for word in words if word.endswith("*"))
    return frozenset(word for word in words if not word.endswith("*")), prefixes


def _is_of_family(name: str, prefixes: tuple[str, ...], patterns: tuple[str, ...]) -> bool:
    return name.startswith(prefixes) or (bool(patterns) and _expression(patterns).fullmatch(name) is not None)


@functools.lru_cache(maxsize=8)
def _expression(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(".*".join(map(re.escape, pattern.split("*"))) for pattern in patterns), re.DOTALL)


_HARMLESS_GIT = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "diff.autoRefreshIndex": "false",
    "diff.submodule": "short",
    "status.submoduleSummary": "false",
    "log.showSignature": "false",
}


def harmless_git() -> dict[str, str]:
    """Variables that stop git from running hooks and helpers, and from fetching missing objects of a partial clone, for
    a read-only command, also in submodules."""
    found = {"GIT_CONFIG_COUNT": str(len(_HARMLESS_GIT)), "GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": ""}
    for number, (key, value) in enumerate(_HARMLESS_GIT.items()):
        found |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return found
