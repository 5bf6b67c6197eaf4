"""/doctor: check this installation, as a new session in this folder would find it."""

from __future__ import annotations

import asyncio
import os

from agentcli.agent.engine import Engine
from agentcli.assemble import Options
from agentcli.commands.base import Manual
from agentcli.core.errors import UsageError
from agentcli.doctor.check_context import CheckContext, OutputScreen
from agentcli.doctor.checks import run_checks
from agentcli.doctor.finding import finding_lines, summary

MANUAL = Manual(
    "Checks versions, programs, terminal, settings, key, folders and sessions, and tests the sandbox in a "
    "scratch folder. It changes none of your files.",
    (("/doctor", "check this installation"), ("/doctor online", "also request the list of models from the server")),
)


async def run(engine: Engine, arguments: str) -> str:
    if arguments not in ("", "online"):
        raise UsageError("/doctor checks this installation; /doctor online also contacts the server.")
    screen = OutputScreen.here(may_ask=False)
    context = CheckContext(Options(cwd=engine.working_dirs[0], interactive=True), os.environ, screen)
    # In a thread, because it starts programs and a sandbox: streaming and typing must not wait for that.
    found = await asyncio.to_thread(lambda: list(run_checks(context, online=arguments == "online")))
    # Not wrapped: the front end does that, again after each resize.
    lines = [line for finding in found for line in finding_lines(finding, None)]
    return "\n".join([*lines, "", summary(found)])
