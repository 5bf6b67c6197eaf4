"""All checks in display order; here those of settings, sessions, servers, definitions, the model and the sandbox.

No user file is changed. No server is contacted unless requested. Keys are never shown, only their source.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from agentcli.assemble import sandbox_for
from agentcli.assemble.definitions import definition_places
from agentcli.assemble.mcp import find_servers
from agentcli.assemble.model import ModelBuilder
from agentcli.config.paths import project_folder
from agentcli.core.errors import AgentError
from agentcli.core.files.access import open_regular
from agentcli.core.text.format import byte_size, counted, duration
from agentcli.core.text.plaintext import plain_line
from agentcli.definitions.library import Library
from agentcli.doctor import machine
from agentcli.doctor.finding import CheckContext, Finding, Status
from agentcli.doctor.sandbox_trial import Proof, prove
from agentcli.providers.catalog import DEFAULT_MODEL
from agentcli.providers.credentials import show_url
from agentcli.providers.listing import list_models
from agentcli.session.base import sessions_dir
from agentcli.session.find import list_sessions

Check = Callable[[CheckContext], Iterator[Finding]]

_MIN_FREE_BYTES = 200_000_000
_MAX_SESSIONS = 300
"""Sessions whose last byte is checked, newest first."""
_VARIABLES = {"configuration": "CONFIG_DIR", "state": "STATE_DIR", "cache": "CACHE_DIR"}


def configuration(context: CheckContext) -> Iterator[Finding]:
    problems = context.environment.settings.problems
    for problem in problems:
        status: Status = "warn" if problem.level == "warning" else "ok"
        advice = "Fix that file; `agentcli config` shows the active settings." if status == "warn" else ""
        yield Finding(status, "settings", problem.text, advice)
    if not problems:
        yield Finding("ok", "settings", "no problems; `agentcli config` shows each value and its source")


def trust(context: CheckContext) -> Iterator[Finding]:
    """Trust of the folder's own settings, if it has any."""
    folder = project_folder(context.environment.cwd)
    if not any((folder / name).exists() for name in ("settings.json", "settings.local.json")):
        return
    if context.environment.is_trusted():
        yield Finding("ok", "trust", f"the settings in {folder} are trusted and active")
    else:
        advice = "`agentcli trust` shows what they do and asks whether to trust them."
        yield Finding(
            "ok", "trust", f"the settings in {folder} are not trusted: only their deny and ask rules apply", advice
        )


def folders(context: CheckContext) -> Iterator[Finding]:
    for name, folder in (
        ("configuration", context.paths.config_dir),
        ("state", context.paths.state_dir),
        ("cache", context.paths.cache_dir),
    ):
        if folder is None:
            yield Finding("warn", name, "no folder available", "Set HOME; without it nothing is saved.")
            continue
        existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
        problem = _unwritable(existing)
        if problem:
            advice = f"Make {existing} writable, or set another folder: AGENTCLI_{_VARIABLES[name]}."
            yield Finding("warn", name, f"{folder}: {problem}", advice)
            continue
        free = shutil.disk_usage(existing).free
        text = f"{folder}, {byte_size(free)} free"
        if free < _MIN_FREE_BYTES:
            yield Finding("warn", name, text, "Free some space: sessions are not saved on a full disk.")
        else:
            yield Finding("ok", name, text)


def sessions(context: CheckContext) -> Iterator[Finding]:
    state = context.paths.state_dir
    root = sessions_dir(state) if state else None
    if state is None or root is None or not root.is_dir():
        yield Finding("ok", "sessions", "none stored yet")
        return
    status = root.stat()
    if status.st_uid == os.geteuid() and status.st_mode & 0o077:
        yield Finding("warn", "sessions", f"other users can read {root}", f"Make it private: chmod 700 '{root}'.")
    stored = list_sessions(state)
    here = sum(1 for session in stored if session.cwd == str(context.environment.cwd))
    taken = sum(session.size for session in stored)
    cut = [session for session in stored[:_MAX_SESSIONS] if _is_cut_off(session.path)]
    count = f"{len(stored):,} stored, {here:,} of this folder, {byte_size(taken)}"
    if cut:
        which = ", ".join(session.session_id[:8] for session in cut[:5])
        text = f"{count}; {len(cut)} of them end in the middle of a line: {which}"
        yield Finding("ok", "sessions", text, "They are repaired when you resume them; one may be in use right now.")
    else:
        yield Finding("ok", "sessions", count)


def _is_cut_off(path: Path) -> bool:
    try:
        with open_regular(path) as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"
    except OSError:
        return False  # deleted since it was listed, or empty


def _unwritable(folder: Path) -> str:
    """Why no file can be created in a folder; "" if one can."""
    try:
        descriptor, name = tempfile.mkstemp(prefix=".doctor-", dir=folder)
    except OSError as error:
        return error.strerror or "not writable"
    os.close(descriptor)
    Path(name).unlink()
    return ""


# ------------------------------------------------------------------------------------------------------------- servers


def servers(context: CheckContext) -> Iterator[Finding]:
    found = find_servers(context.environment)
    for problem in found.problems:
        yield Finding("warn", "mcp", problem, "Correct the entry; `agentcli mcp list` shows all servers.")
    if not found.configs:
        return
    from agentcli.mcp.configuration import show_target

    for config in found.configs:
        what = f"{config.name} ({config.origin or config.source}): {show_target(config)}"
        if config.name in found.unapproved:
            yield Finding("ok", "mcp", f"{what}, waits for approval", "`agentcli trust` shows what it starts and asks.")
        elif config.disabled:
            yield Finding("ok", "mcp", f"{what}, disabled")
        elif config.kind == "stdio" and not _has_program(context, config.command):
            advice = "Install it, or correct the command; agentcli searches PATH."
            yield Finding("warn", "mcp", f"{what}, the program was not found", advice)
        else:
            yield Finding("ok", "mcp", f"{what}; `agentcli mcp test {config.name}` tries it")


def _has_program(context: CheckContext, command: str) -> bool:
    if "/" in command:
        return shutil.which(str(context.environment.cwd / Path(command).expanduser())) is not None
    return shutil.which(command, path=context.environment.environ.get("PATH")) is not None


def definitions(context: CheckContext) -> Iterator[Finding]:
    """Mistakes in files that define commands, skills, agents and styles, those of an untrusted project included."""
    library = Library(replace(definition_places(context.environment), trusted=True, trusted_digests=None))
    library.refresh()
    for problem in library.problems:
        yield Finding("warn", "definitions", str(problem), "Correct that line, or remove the file.")


# --------------------------------------------------------------------------------------------------------------- model

_LISTING_SECONDS = 8.0
_SHOWN_MODELS = 8


def key(context: CheckContext) -> Iterator[Finding]:
    builder = ModelBuilder(context.environment)
    if builder.needs_no_key:
        yield Finding("ok", "key", f"not needed: {builder.needs_no_key}")
        return
    try:
        found = builder.credentials()
    except AgentError as error:
        yield Finding("fail", "key", "no usable key", str(error))
        return
    kept = f", kept in {found.kept_in}" if found.kept_in else ""
    source = f"from {found.source}{kept}" if found.source != "none" else "none; the server may not need one"
    yield Finding("ok", "key", f"{source}; requests go to {show_url(found.base_url)} ({found.base_url_source})")


def endpoint(context: CheckContext) -> Iterator[Finding]:
    builder = ModelBuilder(context.environment)
    if builder.needs_no_key:
        yield Finding("ok", "endpoint", f"not checked: {builder.needs_no_key}")
        return
    found = builder.credentials()
    began = time.monotonic()
    listing = asyncio.run(list_models(found, _LISTING_SECONDS))
    answered = f"{found.host} answers in {duration(time.monotonic() - began)}"
    if listing.problem:
        advice = "Check the network, the address (ANTHROPIC_BASE_URL, baseUrl) and the proxy (HTTPS_PROXY)."
        yield Finding("fail", "endpoint", f"{found.host} cannot be reached: {listing.problem}", advice)
    elif listing.is_refused:
        text = f"{answered}, but refuses the key (HTTP {listing.status}, key from {found.source})"
        yield Finding("fail", "endpoint", text, "Enter another key: agentcli login.")
    elif listing.models:
        yield from _models(context, answered, listing.models)
    elif listing.is_absent:
        yield Finding("ok", "endpoint", f"{answered}; it does not list its models")
    else:
        advice = "Check the address." if 300 <= listing.status < 400 else "Try again later."
        yield Finding("warn", "endpoint", f"{answered}, with HTTP {listing.status}", advice)


def _models(context: CheckContext, answered: str, names: Sequence[str]) -> Iterator[Finding]:
    """Whether the endpoint has the configured model. `answered`: the beginning of the finding's text."""
    wanted = context.environment.catalog.resolve(context.environment.settings.text("model") or DEFAULT_MODEL)
    count = counted(len(names), "model")
    if any(name == wanted or name.startswith(f"{wanted}-") for name in names):
        yield Finding("ok", "endpoint", f"{answered}, has {count}, including {wanted}")
        return
    shown = ", ".join(plain_line(name, 60) for name in names[:_SHOWN_MODELS])
    more = " …" if len(names) > _SHOWN_MODELS else ""
    advice = f"Choose one of its models with --model or the setting `model`: {shown}{more}"
    yield Finding("warn", "endpoint", f"{answered}, has {count}, but not {wanted}", advice)


# ------------------------------------------------------------------------------------------------------------- sandbox

_BROKEN = "Do not rely on the sandbox on this machine. Report this as described in .github/SECURITY.md."
_SEATBELT = (
    "macOS: quarantine, limits on memory and processes, network through allowed hosts only, and a private /tmp. "
    "agentcli does not support them there."
)


def sandbox(context: CheckContext) -> Iterator[Finding]:
    launcher, problem = sandbox_for(context.options)
    if launcher.name == "none":
        if not problem:
            yield Finding("warn", "sandbox", "off: approved commands can do anything you can", "Use --sandbox on.")
        else:
            advice = "Until then an approved command can do anything you can, and auto mode is not available."
            yield Finding("warn", "sandbox", problem, advice)
        return
    text = f"{launcher.level}. Results of testing each promise:"
    yield Finding("warn" if problem else "ok", "sandbox", text, problem)
    root = context.paths.cache_dir or Path(tempfile.gettempdir())
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    for proofs in prove(launcher, context.environ, root):
        yield from _findings(proofs)
    if launcher.name == "seatbelt":
        yield Finding("ok", "not proven", _SEATBELT)


def _findings(proofs: list[Proof]) -> Iterator[Finding]:
    """One finding for all promises that hold, and one for each that is broken or could not be tested."""
    kept = [proof for proof in proofs if proof.outcome == "holds"]
    if kept:
        text = "; ".join(proof.promise for proof in kept)
        yield Finding("ok", kept[0].topic, text)
    for proof in proofs:
        if proof.outcome == "broken":
            yield Finding("fail", proof.topic, f"does not hold: {proof.promise}", _BROKEN)
        elif proof.outcome == "untried":
            yield Finding("warn", proof.topic, f"not tried: {proof.promise} ({proof.reason})")


# ---------------------------------------------------------------------------------------------------------- all checks

CHECKS: tuple[tuple[str, Check], ...] = (
    ("versions", machine.versions),
    ("programs", machine.programs),
    ("terminal", machine.terminal),
    ("keyboard", machine.keyboard),
    ("clipboard", machine.clipboard),
    ("settings", configuration),
    ("trust", trust),
    ("mcp", servers),
    ("definitions", definitions),
    ("key", key),
    ("folders", folders),
    ("sessions", sessions),
    ("sandbox", sandbox),
    ("file watcher", machine.watches),
)
ONLINE: tuple[tuple[str, Check], ...] = (("endpoint", endpoint),)


def run_checks(context: CheckContext, *, online: bool) -> Iterator[Finding]:
    """Run all checks. Never raises: a failing check becomes a finding."""
    for name, check in (*CHECKS, *(ONLINE if online else ())):
        try:
            yield from check(context)
        except (AgentError, OSError, ValueError) as error:
            yield Finding("fail", name, plain_line(str(error) or type(error).__name__, 400))
