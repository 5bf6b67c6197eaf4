"""What a submission used: totals, where the money went, and the question at the budget's cap."""
