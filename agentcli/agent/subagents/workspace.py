"""The session's workspace, as a sub-agent's engine uses it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agentcli.core.messages import Json
from agentcli.workspace.base import Workspace


class AgentWorkspace(Workspace):
    """Changes of an agent belong to the prompt that the session works on. So submissions of the agent begin and end
    nothing here, and only the session undoes."""

    def __init__(self, inner: Workspace) -> None:
        super().__init__("An agent cannot undo changes.")
        self._inner = inner

    async def before_change(self, call_id: str, input: Json, cwd: Path, working_dirs: Sequence[Path]) -> None:
        await self._inner.before_change(call_id, input, cwd, working_dirs)

    async def after_change(self, only: Sequence[str] | None = None, background: bool = False) -> None:
        await self._inner.after_change(only, background)
