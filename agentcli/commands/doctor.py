"""/doctor: how this installation is, check by check; what a new session in this folder would find."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator

from agentcli.agent.engine import Engine
from agentcli.commands.base import fail, say
from agentcli.core.events import Event
from agentcli.doctor.finding import Finding, finding_lines, summary


async def run(engine: Engine, arguments: str) -> AsyncGenerator[Event, None]:
    if arguments not in ("", "online"):
        yield fail("/doctor looks at this installation, /doctor online also tries to reach the server.")
        return
    # Programs are started and a sandbox is tried: what streams or is typed meanwhile must not wait for that.
    found = await asyncio.to_thread(_examined, engine, arguments == "online")
    lines = [line for finding in found for line in finding_lines(finding, None)]
    yield say("\n".join([*lines, "", summary(found)]))


def _examined(engine: Engine, online: bool) -> list[Finding]:
    from agentcli.assemble import Options
    from agentcli.doctor.examine import examine
    from agentcli.doctor.patient import Patient, Screen

    options = Options(cwd=engine.working_dirs[0], interactive=True)
    return list(examine(Patient(options, os.environ, Screen.here(may_ask=False)), online=online))
