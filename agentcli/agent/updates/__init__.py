"""What the model is told beside prompts and results: changed files, instruction files, undo, background commands."""
