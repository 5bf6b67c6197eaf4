"""Updates for the model besides prompts and results: changed files, instruction files, undo, background commands."""
