"""/replay: how to play or verify this session."""

from __future__ import annotations

import shlex

from agentcli.agent.engine import Engine
from agentcli.core.errors import UsageError


async def run(engine: Engine, _arguments: str) -> str:
    """Shows how to replay this session in another terminal: as it happened, or to compare what the loop does now with
    what was recorded.

    /replay  show the commands
    """
    if engine.session.store.path is None or not engine.message_count:
        raise UsageError("This session has no prompt yet, or is not saved, so there is nothing to replay.")
    name = shlex.quote(await engine.resume_name())
    return (
        "In another terminal:\n"
        f"agentcli replay {name}            plays it: pause, step, speed, jump to a prompt, search\n"
        f"agentcli replay {name} --verify   runs the loop on the record and compares every event and request\n"
        "/tree and /trace show its prompts and requests here."
    )
