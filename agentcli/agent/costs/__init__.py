"""What a conversation costs: totals, attribution to tools, the budget, and what keeps or breaks the prompt cache."""
