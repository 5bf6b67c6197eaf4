"""/cost: what this conversation has used so far in this process, as tables: per model, prompt, tool and agent."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence

from agentcli.agent.engine import Engine
from agentcli.agent.spending import Spending, Submission, ToolSpending
from agentcli.commands.base import say
from agentcli.core.events import Event
from agentcli.core.plaintext import plain_line
from agentcli.core.usage import ModelTotals, Totals, Usage

_MOST_PROMPTS = 10
_MOST_TOOLS = 15
_NAME_LIMIT = 40


async def run(engine: Engine, _arguments: str) -> AsyncGenerator[Event, None]:
    totals = engine.totals
    if not totals.by_model:
        yield say("Nothing has been used yet.")
        return
    yield say("\n\n".join([_summary(engine), _by_name("model", totals), *details(engine.spending)]))


def details(spending: Spending) -> list[str]:
    """Tables of agents, purposes, prompts and tools, each only if there is something to tell apart."""
    parts = []
    if len(spending.by_agent.by_model) > 1:
        parts.append(_by_name("agent", spending.by_agent))
    if len(spending.by_purpose.by_model) > 1:
        parts.append(_by_name("what for", spending.by_purpose))
    if len(spending.submissions) > 1:
        parts.append(_submissions(spending.submissions))
    if spending.tools:
        parts.append(_tools(list(spending.tools.items())))
    return parts


def _summary(engine: Engine) -> str:
    totals = engine.totals
    unpriced = sum(used.unpriced_requests for used in totals.by_model.values())
    more = "" if not unpriced else f" and {_requests(unpriced)} whose price is not known"
    lines = [f"${totals.cost_usd:.4f} so far{more}; {cached(totals.usage)} of the input was read from the cache."]
    if engine.budget is not None:
        lines.append(f"The budget is ${engine.budget:g} ({totals.cost_usd / engine.budget:.0%} spent).")
    following = engine.outlook().next_cost_usd
    if following is not None:
        lines.append(f"Sending the next request costs about ${following:.4f}.")
    return "\n".join(lines)


def _by_name(title: str, totals: Totals) -> str:
    header = (title, "requests", "input", "output", "cache write", "cache read", "cached", "cost")
    rows = [(plain_line(name, _NAME_LIMIT), *_numbers(used)) for name, used in totals.by_model.items()]
    if len(rows) > 1:
        rows.append(("together", *_numbers(_together(totals))))
    return table([header, *rows])


def _submissions(submissions: Sequence[Submission]) -> str:
    """What was typed comes last: how wide it is on a screen is hard to know, and nothing has to stand behind it."""
    first = max(0, len(submissions) - _MOST_PROMPTS)
    rows = [
        (str(number), f"{one.spent.requests:,}", cached(one.spent.usage), _price(one.spent), one.title)
        for number, one in enumerate(submissions[first:], first + 1)
    ]
    shown = table([("prompt", "requests", "cached", "cost", ""), *rows], last_is_text=True)
    return shown + (f"\n({first:,} earlier prompts are not shown.)" if first else "")


def _tools(tools: Sequence[tuple[str, ToolSpending]]) -> str:
    header = ("results of", "calls", "tokens", "in context", "sent in all", "about")
    rows = [
        (
            plain_line(name, _NAME_LIMIT),
            f"{row.calls:,}",
            f"{row.result_tokens:,}",
            f"{row.in_context:,}",
            f"{row.sent_tokens:,}",
            f"${row.cost_usd:.4f}" + (" + ?" if row.unpriced else ""),
        )
        for name, row in tools[:_MOST_TOOLS]
    ]
    rest = f"\n({len(tools) - _MOST_TOOLS:,} more are not shown.)" if len(tools) > _MOST_TOOLS else ""
    return table([header, *rows]) + rest


# ------------------------------------------------------------------------------------------------------- as a table


def table(rows: Sequence[Sequence[str]], *, last_is_text: bool = False) -> str:
    """Aligned columns: the first to the left, the others to the right; a last one of text as it is."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        if last_is_text:
            cells[-1] = row[-1]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _numbers(used: ModelTotals) -> Iterable[str]:
    usage = used.usage
    counts = (
        used.requests,
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_creation_input_tokens,
        usage.cache_read_input_tokens,
    )
    return (*(f"{count:,}" for count in counts), cached(usage), _price(used))


def _together(totals: Totals) -> ModelTotals:
    used = totals.by_model.values()
    return ModelTotals(
        totals.usage, totals.cost_usd, sum(one.requests for one in used), sum(one.unpriced_requests for one in used)
    )


def _price(used: ModelTotals) -> str:
    """What has no price does not cost nothing."""
    if not used.unpriced_requests:
        return f"${used.cost_usd:.4f}"
    return "not known" if used.unpriced_requests == used.requests else f"${used.cost_usd:.4f} + ?"


def cached(usage: Usage) -> str:
    return f"{usage.cache_read_input_tokens / usage.prompt_tokens:.1%}" if usage.prompt_tokens else "0.0%"


def _requests(count: int) -> str:
    return "1 request" if count == 1 else f"{count:,} requests"
