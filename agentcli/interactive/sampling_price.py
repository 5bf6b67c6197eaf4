"""The price line of an MCP sampling request."""

from __future__ import annotations

from agentcli.core.messages import Json
from agentcli.core.text.format import about_money, money


def sampling_price(display: Json) -> str:
    """Most that the reply can cost, and how much of its budget the server has used. `display`: of the question."""
    reply = f"at most {display['max_tokens']:,} tokens of reply"
    if display["most_usd"] is None:
        return f"not known; {reply}"
    used = f"{money(display['spent_usd'])} of {money(display['budget_usd'])} used"
    return f"{about_money(display['most_usd'], 'at most ')}; {reply}; {used}"
