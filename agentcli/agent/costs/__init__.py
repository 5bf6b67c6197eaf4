"""Costs of a conversation: totals, where the money went, and the question when the budget is spent."""
