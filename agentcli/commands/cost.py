"""/cost and /budget: tokens and cost of this conversation in this process, and what it may cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from agentcli.agent.costs.costs import Spending, SubmissionSpending, ToolSpending, dollars
from agentcli.agent.engine import Engine
from agentcli.commands.front_end import FrontEnd
from agentcli.commands.table import WIDTH, table, width_of
from agentcli.core.errors import UsageError
from agentcli.core.text.format import about_money, counted, money, percent, token_count
from agentcli.core.text.plaintext import plain_line
from agentcli.core.usage import ModelTotals, Totals, Usage

UNUSED = "Nothing has been used yet."
UNUSED_SINCE_RESUME = "Nothing has been used since the session was resumed."
MAX_PROMPTS = 10
MAX_TOOLS = 15
_NAME_LIMIT = 40
_HEADER = ("requests", "input", "output", "cache write", "cache read", "cached", "cost")
_NARROW = ("requests", "input", "output", "written", "read", "cached", "cost")


async def run_cost(engine: Engine, _arguments: str, front_end: FrontEnd) -> str | None:
    """Lists tokens and cost per model, prompt and tool.

    /cost  show tokens and cost so far
    """
    if front_end.has_pages:
        await front_end.page("cost", engine)
        return None
    return "\n\n".join(cost_parts(engine, WIDTH))


def cost_parts(engine: Engine, width: int) -> list[str]:
    """Sentences about the cost, and tables at most `width` columns wide if anything was used."""
    totals = engine.costs.totals
    if not totals.by_model:
        earlier = before(engine)
        return [f"{UNUSED_SINCE_RESUME} {earlier}" if earlier else UNUSED]
    return [_summary(engine), _by_name("model", totals, width), *details(engine.costs.spending, width)]


def details(spending: Spending, width: int = WIDTH) -> list[str]:
    """Tables of agents, purposes and prompts, each only if it has several rows, and of tools, if there are any."""
    parts = []
    if len(spending.by_agent.by_model) > 1:
        parts.append(_by_name("agent", spending.by_agent, width))
    if len(spending.by_purpose.by_model) > 1:
        parts.append(_by_name("what for", spending.by_purpose, width))
    if len(spending.submissions) > 1:
        parts.append(_submissions(spending.submissions, width))
    if spending.tools:
        parts.append(_tools(list(spending.tools.items()), width))
    return parts


def cache_losses(engine: Engine) -> str:
    """Number and cost of prompt cache losses, as a clause without its subject; "" if there were none."""
    losses = engine.costs.cache_losses
    times = [_times(losses.breaks, "broke"), _times(losses.expiries, "expired")]
    said = " and ".join(one for one in times if one)
    if not said:
        return ""
    usd = engine.costs.cache_losses_usd
    price = "at an unknown price" if usd is None else f"which cost {money(usd)} more than reading it"
    return f"{said}: {token_count(losses.tokens)} tokens were billed again, {price}."


def lost(engine: Engine) -> str:
    """`cache_losses` as a sentence."""
    losses = cache_losses(engine)
    return f"The prompt cache {losses}" if losses else ""


def describe_savings(engine: Engine) -> str:
    """Savings from leaving out old content, and the cost of rewriting the cache for it, as a sentence; "" if none."""
    steps = engine.costs.spending.steps
    if not steps.saved_tokens and not steps.rebilled_tokens:
        return ""
    known = steps.priced
    worth = f", {about_money(steps.saved_usd)}" if known else ""
    cost = f", {money(steps.rebilled_usd)} more than reading them" if known else ""
    saved_tokens = token_count(steps.saved_tokens)
    less = f"Leaving out old content saved {saved_tokens} tokens in {_requests(steps.requests)}{worth}"
    return f"{less}; the cache was rewritten for {token_count(steps.rebilled_tokens)} tokens{cost}."


def before(engine: Engine) -> str:
    """Cost of the session before it was resumed, as a sentence; "" if it was not resumed."""
    earlier, whole = engine.costs.earlier, engine.costs.session_totals
    if not earlier.by_model:
        return ""
    more = "" if earlier.fully_priced else ", plus requests of unknown price"
    in_all = f"; in all {money(whole.cost_usd)}" if engine.costs.totals.by_model else ""
    return (
        f"Before it was resumed the session had cost {money(earlier.cost_usd)}{more}{in_all}, "
        f"with {format_cached(whole.usage)} of the input from the cache."
    )


def _summary(engine: Engine) -> str:
    totals = engine.costs.totals
    unpriced = sum(used.unpriced_requests for used in totals.by_model.values())
    more = "" if not unpriced else f", plus {_requests(unpriced)} of unknown price"
    lines = [
        f"{money(totals.cost_usd)} so far{more}; {format_cached(totals.usage)} of the input was read from the cache."
    ]
    if sentence := before(engine):
        lines.append(sentence)
    if (cap := engine.costs.budget.cap) is not None:
        lines.append(f"The budget is {money(cap)} ({percent(totals.cost_usd, cap)} spent).")
    outlook = engine.context.outlook()
    following = outlook.next_cost_usd
    if following is not None:
        cold = " The cache is cold." if outlook.cold else ""
        lines.append(f"Sending the next request costs {about_money(following)}.{cold}")
    lines += [sentence for sentence in (lost(engine), describe_savings(engine)) if sentence]
    return "\n".join(lines)


def _by_name(title: str, totals: Totals, width: int) -> str:
    """A table with full numbers, short numbers or only the most important columns, whatever fits the width."""
    used = [*totals.by_model.items(), *([("together", together(totals))] if len(totals.by_model) > 1 else [])]
    names = [plain_line(name, _NAME_LIMIT) for name, _used in used]
    for header, count in ((_HEADER, _whole), (_NARROW, _whole), (_NARROW, token_count)):
        rows = [(name, *_numbers(one, count)) for name, (_name, one) in zip(names, used, strict=True)]
        made = table([(title, *header), *rows])
        if width_of(made) <= width:
            return made
    few = [(name, _whole(one.requests), price(one)) for name, (_name, one) in zip(names, used, strict=True)]
    return table([(title, "requests", "cost"), *few])


def _submissions(submissions: Sequence[SubmissionSpending], width: int) -> str:
    """Table of prompts. Their text is the last column, because its width on a screen is uncertain."""
    first = max(0, len(submissions) - MAX_PROMPTS)
    rows = [
        (str(number), f"{one.spent.requests:,}", format_cached(one.spent.usage), price(one.spent), one.title)
        for number, one in enumerate(submissions[first:], first + 1)
    ]
    shown = table([("prompt", "requests", "cached", "cost", ""), *rows], text_width=width)
    return shown + (f"\n({first:,} earlier prompts are not shown.)" if first else "")


def _tools(tools: Sequence[tuple[str, ToolSpending]], width: int) -> str:
    header = ("results of", "calls", "tokens", "in context", "sent in all", "about")
    rows = [
        (
            plain_line(name, _NAME_LIMIT),
            f"{row.calls:,}",
            f"{row.result_tokens:,}",
            f"{row.in_context:,}",
            f"{row.sent_tokens:,}",
            f"{money(row.cost_usd)}" + (" + ?" if row.unpriced else ""),
        )
        for name, row in tools[:MAX_TOOLS]
    ]
    rest = f"\n({len(tools) - MAX_TOOLS:,} more are not shown.)" if len(tools) > MAX_TOOLS else ""
    made = table([header, *rows])
    if width_of(made) > width:
        made = table([(name, calls, about) for name, calls, *_tokens, about in (header, *rows)])
    return made + rest


def _times(count: int, what: str) -> str:
    return "" if not count else f"{what} once" if count == 1 else f"{what} {count:,} times"


def _whole(count: int) -> str:
    return f"{count:,}"


def counts_of(used: ModelTotals) -> tuple[int, ...]:
    """Requests, then tokens of input, output, cache writes and cache reads."""
    usage = used.usage
    return (
        used.requests,
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_creation_input_tokens,
        usage.cache_read_input_tokens,
    )


def _numbers(used: ModelTotals, count: Callable[[int], str]) -> Iterable[str]:
    return (*map(count, counts_of(used)), format_cached(used.usage), price(used))


def together(totals: Totals) -> ModelTotals:
    used = totals.by_model.values()
    return ModelTotals(
        totals.usage, totals.cost_usd, sum(one.requests for one in used), sum(one.unpriced_requests for one in used)
    )


def price(used: ModelTotals, unknown: str = "not known") -> str:
    """The cost, with requests of unknown price marked instead of counted as free."""
    if not used.unpriced_requests:
        return money(used.cost_usd)
    return unknown if used.unpriced_requests == used.requests else f"{money(used.cost_usd)} + ?"


def format_cached(usage: Usage) -> str:
    return percent(usage.cache_read_input_tokens, usage.prompt_tokens or 1, decimals=1)


def _requests(count: int) -> str:
    return counted(count, "request")


async def run_budget(engine: Engine, arguments: str) -> str:
    """Warns at 80% and asks before spending more than the budget.

    /budget       show what is left
    /budget 2.50  set it, in dollars
    /budget off   remove it
    """
    wanted = arguments.strip().lower()
    if not wanted:
        return _current_budget(engine)
    if wanted in ("off", "none", "no"):
        engine.set_budget(None)
        return _current_budget(engine)
    cap = dollars(wanted)
    if cap is None:
        raise UsageError(f"{arguments!r} is not an amount in dollars. Use /budget 5, /budget 0.50 or /budget off.")
    if problem := _explain_unpriced(engine):
        raise UsageError(problem)
    engine.set_budget(cap)
    spent = engine.costs.totals.cost_usd
    beyond = " You have already spent more: raise the budget to continue." if spent >= cap else ""
    return _current_budget(engine) + beyond


def _explain_unpriced(engine: Engine) -> str:
    """Why a budget cannot be enforced: models without a known price. "" if all prices are known."""
    models = (engine.model, *engine.profile.fallback_models, engine.profile.advisor)
    unknown = [model for model in models if model and engine.session.catalog.get(model).price is None]
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
    if (cap := engine.costs.budget.cap) is None:
        return f"No budget is set; {so_far}. /budget 5 sets one of five dollars for this session."
    return f"The budget is {money(cap)}; {so_far} ({percent(spent, cap)})."
