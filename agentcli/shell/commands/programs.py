"""Find the file that runs under a program's name, and what it starts or loads.

A command is read-only only if nothing that it runs can be chosen by files of a working directory, which a model or an
untrusted author may have written: programs on PATH, version managers, interpreter hooks, git settings.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.core.files.bounded_read import Reason, Unread, read_bounded, read_start
from agentcli.core.files.links import is_below
from agentcli.core.text.lazy_pattern import lazy_pattern
from agentcli.shell.commands.read_only_table import STARTS, STEERED_BY
from agentcli.shell.git_config import is_repository, runs_programs
from agentcli.shell.paths import real_path

if TYPE_CHECKING:
    from agentcli.shell.command_context import CommandContext

_MAX_BYTES = 200_000
_BUILT_IN = frozenset(
    "cd echo printf test [ [[ true false : pwd type command builtin exit time read export set".split()  # noqa: SIM905
)
_SHIMS = lazy_pattern(r"/(?:shims|\.volta/bin|\.cargo/bin|\.proto/bin|\.nodenv|\.rbenv|\.pyenv|\.jenv|\.goenv)(?:/|$)")
_SHIM_PROGRAMS = frozenset({"rustup", "mise", "asdf", "volta", "volta-shim", "proto", "pyenv", "rbenv", "jenv"})


def own_program(name: str, place: CommandContext) -> str | None:
    """Reason if files of a working directory decide what `name` runs or starts; else None."""
    for program in (name, *STARTS.get(name, ())):
        reason = _found_inside(program, place)
        if reason is not None:
            return reason if program == name else f"{name} starts {program}, and {reason}"
    return None


def _found_inside(name: str, place: CommandContext) -> str | None:
    if name in _BUILT_IN or "/" in name or not place.search_path:
        return None
    for entry in place.search_path.split(os.pathsep):
        if not entry.startswith("/"):
            return f"PATH contains {entry or '.'}, so any {name} may run"
        path = os.path.join(entry, name)  # noqa: PTH118
        if os.path.isfile(path) and os.access(path, os.X_OK):  # noqa: PTH113
            inside = place.holds(entry) or place.holds(path)
            return f"the program {path} is a file in a working directory" if inside else None
    return None


def _program_path(name: str, place: CommandContext) -> str | None:
    for entry in place.search_path.split(os.pathsep) if place.search_path else ():
        path = os.path.join(entry, name)  # noqa: PTH118
        if os.path.isfile(path) and os.access(path, os.X_OK):  # noqa: PTH113
            return path
    return None


# ---------------------------------------------------------------------------------- files that select or configure


def folder_objection(words: Sequence[str], folder: str, place: CommandContext) -> str | None:
    """Reason if files in or above the folder decide what runs; else None."""
    program = words[0]
    if program == "pip" and words[1:] != ("--version",):
        reason = _site_objection(folder, place)
        if reason is not None:
            return reason
    config = os.environ.get("RIPGREP_CONFIG_PATH") if program == "rg" and "--no-config" not in words else None
    if config and place.holds(os.path.join(folder, config)):  # noqa: PTH118
        return f"rg reads options from {config}, which can make it run programs"
    steering = STEERED_BY.get(program, ())
    if program != "git" and not steering:
        return None
    path = Path(real_path(folder))
    chosen = program == "go" or _is_shim(program, place)
    for ancestor in (path, *path.parents):
        if program == "git":
            # A bare repository consists of ordinary files, including settings that run programs.
            if _like_a_repository(str(ancestor)):
                return f"{ancestor} is a bare repository, whose settings may run programs"
            # Git continues searching above a `.git` that is not a repository.
            if is_repository(ancestor / ".git"):
                break
        elif is_below(str(ancestor), place.working_dirs):
            reason = _steering_objection(program, steering if chosen else (), ancestor)
            if reason is not None:
                return reason
    if program == "git" and not place.trusted and (setting := runs_programs(path, place.working_dirs)):
        return f"this repository is not trusted and {setting}"
    return None


def _steering_objection(program: str, names: Sequence[str], folder: Path) -> str | None:
    for name in names:
        if (folder / name).exists():
            return f"{name} decides which {program} runs"
    if program not in ("node", "npm", "npx"):
        return None
    if names and _pins_node(folder):
        return f"package.json decides which {program} runs"
    key = _npm_setting(folder / ".npmrc")
    return f"{key} in .npmrc can decide which programs {program} runs" if key is not None else None


def _is_shim(program: str, place: CommandContext) -> bool:
    """Whether a version manager replaces the program. Assumed if PATH is unknown."""
    path = _program_path(program, place)
    if path is None:
        return True
    real = place.resolve(path)
    return bool(_SHIMS.search(path) or _SHIMS.search(real) or os.path.basename(real) in _SHIM_PROGRAMS)  # noqa: PTH119


_HARMLESS_NPM_KEY = lazy_pattern(
    r"package-lock|lockfile-version|save|save-exact|save-prefix|audit|audit-level|fund|loglevel|engine-strict|progress"
    r"|legacy-peer-deps|strict-peer-dep(?:endencie)?s|auto-install-peers|shamefully-hoist|strict-ssl|update-notifier"
    r"|always-auth|prefer-offline|prefer-dedupe|install-links|ignore-scripts|node-linker|public-hoist-pattern(?:\[\])?"
    r"|hoist|hoist-pattern(?:\[\])?|registry|@[\w.-]+:registry|//[\w.:/-]+:(?:_authToken|always-auth|username|email)"
    r"|link-workspace-packages|prefer-workspace-packages|save-workspace-protocol|resolution-mode|tag-version-prefix"
)


def _npm_setting(path: Path) -> str | None:
    """The first key of a `.npmrc` that may decide which programs run."""
    text = _bounded_text(path)
    if text is None:
        return "a setting"
    for line in text.splitlines():
        line = line.strip()
        if not line or line[0] in "#;":
            continue
        key = line.partition("=")[0].strip()
        if not _HARMLESS_NPM_KEY.fullmatch(key):
            return key[:40] or "a setting"
    return None


def _bounded_text(path: Path) -> str | None:
    """The text of a small file, empty if there is none; None if it is too large or unreadable."""
    data = read_bounded(path, _MAX_BYTES)
    if isinstance(data, Unread):
        return "" if data.reason is Reason.MISSING and not os.path.lexists(path) else None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _pins_node(folder: Path) -> bool:
    """Whether package.json may pin Node for volta. Every project has this file, so its name alone proves nothing."""
    text = _bounded_text(folder / "package.json")
    return text is None or '"volta"' in text or "\\u" in text


def _like_a_repository(folder: str) -> bool:
    """Judged by names alone: git accepts a HEAD that leads nowhere, and a file can point it to the rest elsewhere."""
    head, common, objects, references = (
        os.path.lexists(os.path.join(folder, name))  # noqa: PTH118
        for name in ("HEAD", "commondir", "objects", "refs")
    )
    return head or common or (objects and references)


# ------------------------------------------------------------------------------------------- site hooks of Python


def _site_objection(folder: str, place: CommandContext) -> str | None:
    """Reason if `sitecustomize` could be loaded: Python runs it from any folder on its path before pip starts."""
    for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if os.environ.get("PYTHONPATH") else ():
        if not entry.startswith("/") or place.holds(os.path.join(folder, entry)):  # noqa: PTH118
            return "PYTHONPATH makes Python load code from a working directory"
    pip = _program_path("pip", place)
    if pip is None:
        return None
    interpreter = _interpreter(pip)
    if interpreter is None or place.holds(interpreter) or place.holds(os.path.dirname(interpreter)):  # noqa: PTH120
        return "the Python that pip uses is unknown"
    library = Path(os.path.dirname(os.path.dirname(interpreter))) / "lib"  # noqa: PTH120
    sites = [*library.glob("python3*/site-packages"), *library.glob("python3*/dist-packages")]
    sites += Path("~/.local/lib").expanduser().glob("python3*/site-packages")
    for site in sites:
        for path in site.glob("*.pth"):
            text = _bounded_text(path)
            entries = [] if text is None else [line.strip() for line in text.splitlines()]
            if text is None or any(line and place.holds(str(site / line)) for line in entries if line[:1] != "#"):
                return f"{path.name} makes Python load code from a working directory"
    return None


def _interpreter(script: str) -> str | None:
    first = read_start(script, 500).partition("\n")[0]
    found = re.match(r"#!\s*(/\S+)\s*(?:-\w+\s*)*$", first)
    return found[1] if found is not None and not found[1].endswith("/env") else None
