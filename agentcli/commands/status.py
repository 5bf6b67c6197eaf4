"""/status and /doctor: session, model, mode, folders and sandbox; checks of this installation."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

from agentcli import __version__
from agentcli.agent.engine import Engine
from agentcli.agent.live_files import Inactive
from agentcli.assemble import Options
from agentcli.commands.cost import cache_losses
from agentcli.core.errors import UsageError
from agentcli.core.text.format import format_elapsed, money, token_count
from agentcli.core.text.plaintext import plain_line
from agentcli.doctor.checks import run_checks
from agentcli.doctor.finding import CheckContext, OutputScreen, format_finding, summary


async def run_status(engine: Engine, _arguments: str) -> str:
    """Include its output when you report a problem.

    /status  show session, model, mode, sandbox and cost
    """
    await engine.live_files.refresh_settings()
    inactive = await engine.live_files.inactive()
    profile = engine.profile
    totals = engine.costs.session_totals
    rows = [
        ("version", __version__),
        ("session", engine.session_id),
        ("messages", f"{engine.message_count:,}"),
        ("model", profile.model),
        ("effort", engine.effort or _describe_effort(engine)),
        ("speed", "fast") if engine.is_fast else ("speed", "standard"),
        ("thinking", profile.thinking.mode),
        *([("advisor", profile.advisor)] if profile.advisor else []),
        ("mode", engine.permissions.mode.label),
        ("sandbox", engine.sandbox),
        *_not_active(inactive),
        ("folder", str(engine.root)),
        *(("also", str(folder)) for folder in engine.working_dirs if folder != engine.working_dirs[0]),
        ("cost", money(totals.cost_usd) + ("" if totals.fully_priced else ", plus requests of unknown price")),
        *_cache(engine),
    ]
    return "\n".join(f"{name:<9} {plain_line(value, 300)}" for name, value in rows)


def _not_active(inactive: Sequence[Inactive]) -> list[tuple[str, str]]:
    """What is configured but not active, by reason."""
    reasons: dict[str, list[str]] = {}
    for each in inactive:
        reasons.setdefault(each.reason, []).append(f"{each.name} hook" if each.kind == "hook" else each.name)
    return [("inactive", f"{', '.join(dict.fromkeys(names))}: {reason}") for reason, names in reasons.items()]


def _describe_effort(engine: Engine) -> str:
    default = engine.session.catalog.get(engine.profile.model).default_effort
    return f"auto: {default}" if default else "auto"


def _cache(engine: Engine) -> list[tuple[str, str]]:
    """State of the prompt cache and its losses so far."""
    left, outlook = engine.context.cache_seconds_left(), engine.context.outlook()
    if left is None:
        said = "cold: the next request is billed in full" if outlook.cold else "nothing is cached yet"
    else:
        said = f"{token_count(outlook.cached_tokens)} tokens, warm for {format_elapsed(left)} more"
    rows = [("cache", said)]
    if losses := cache_losses(engine):
        rows.append(("", losses))
    return rows


async def run_doctor(engine: Engine, arguments: str) -> str:
    """Checks versions, programs, terminal, settings, key, folders and sessions, and tests the sandbox in a scratch
    folder. It changes none of your files.

    /doctor         check this installation
    /doctor online  also request the list of models from the server
    """
    if arguments not in ("", "online"):
        raise UsageError("/doctor checks this installation; /doctor online also contacts the server.")
    screen = OutputScreen.here()
    context = CheckContext(Options(cwd=engine.working_dirs[0], interactive=True), os.environ, screen)
    # In a thread, because it starts programs and a sandbox: streaming and typing must not wait for that.
    found = await asyncio.to_thread(lambda: list(run_checks(context, online=arguments == "online")))
    # Not wrapped: the front end does that, again after each resize.
    lines = [line for finding in found for line in format_finding(finding, None)]
    return "\n".join([*lines, "", summary(found)])
