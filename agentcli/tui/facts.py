"""What the status line shows, read off an engine. No Textual here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.tui.model import Facts

if TYPE_CHECKING:
    from agentcli.agent.engine import Engine


def facts_of(engine: Engine, branch: str) -> Facts:
    outlook, totals = engine.outlook(), engine.totals
    usage = totals.usage
    info = engine.catalog.get(engine.model)
    done = sum(todo.get("status") == "completed" for todo in engine.todos)
    return Facts(
        model=info.id,
        effort=engine.profile.effort or info.default_effort or "",
        mode=engine.permission_mode.value,
        context_tokens=outlook.tokens,
        context_window=outlook.window,
        compact_at=outlook.compact_at,
        cost_usd=totals.cost_usd,
        fully_priced=totals.fully_priced,
        next_cost_usd=outlook.next_cost_usd,
        cached_share=usage.cache_read_input_tokens / usage.prompt_tokens if usage.prompt_tokens else None,
        branch=branch,
        cwd=shown_path(engine.cwd),
        sandbox=engine.sandbox,
        session=engine.session_id,
        tasks=sum(task.status == "running" for task in engine.background_tasks),
        todos=len(engine.todos),
        todos_done=done,
    )


def shown_path(path: Path) -> str:
    home = str(Path.home())
    text = str(path)
    return f"~{text[len(home) :]}" if text == home or text.startswith(f"{home}/") else text


def branch_of(cwd: Path) -> str:
    """The branch by git's own file; no git runs for it, because the folder may not be trusted."""
    for folder in (cwd, *cwd.parents):
        try:
            place = folder / ".git"
            if place.is_file():
                place = folder / place.read_text()[:4096].partition(":")[2].strip()
            head = (place / "HEAD").read_text()[:4096].strip()
        except (OSError, ValueError):
            continue
        return head.removeprefix("ref: refs/heads/") if head.startswith("ref:") else head[:8]
    return ""
