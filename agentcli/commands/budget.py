"""/budget: show, set or lift what this session may cost. Near it a warning is shown; at it the user is asked."""

from __future__ import annotations

from agentcli.agent.costs.budget_question import dollars
from agentcli.agent.engine import Engine
from agentcli.commands.base import Manual
from agentcli.core.errors import UsageError
from agentcli.core.text.format import money, percent

MANUAL = Manual(
    "Warns at 80% and asks before spending more than the budget.",
    (("/budget", "show what is left"), ("/budget 2.50", "set it, in dollars"), ("/budget off", "remove it")),
)


async def run(engine: Engine, arguments: str) -> str:
    wanted = arguments.strip().lower()
    if not wanted:
        return _current_budget(engine)
    if wanted in ("off", "none", "no"):
        engine.costs.set_budget(None)
        return _current_budget(engine)
    cap = dollars(wanted)
    if cap is None:
        raise UsageError(f"{arguments!r} is not an amount in dollars. Use /budget 5, /budget 0.50 or /budget off.")
    if problem := _unpriced(engine):
        raise UsageError(problem)
    engine.costs.set_budget(cap)
    spent = engine.costs.totals.cost_usd
    beyond = " You have already spent more: raise the budget to continue." if spent >= cap else ""
    return _current_budget(engine) + beyond


def _unpriced(engine: Engine) -> str:
    """Why a budget cannot be enforced: models without a known price. "" if all prices are known."""
    models = (engine.model, *engine.profile.fallback_models, engine.profile.advisor)
    unknown = [model for model in models if model and engine.catalog.get(model).price is None]
    unknown += [name for name, used in engine.costs.totals.by_model.items() if used.unpriced_requests]
    if not unknown:
        return ""
    return (
        f"The price of {', '.join(dict.fromkeys(unknown))} is unknown, so a budget cannot be enforced. Set it in the "
        'settings ("models"), or choose another model.'
    )


def _current_budget(engine: Engine) -> str:
    spent = engine.costs.totals.cost_usd
    so_far = f"{money(spent)} spent" + ("" if engine.costs.totals.fully_priced else ", plus requests of unknown price")
    if engine.costs.budget is None:
        return f"No budget is set; {so_far}. /budget 5 sets one of five dollars for this session."
    return f"The budget is {money(engine.costs.budget)}; {so_far} ({percent(spent, engine.costs.budget)})."
