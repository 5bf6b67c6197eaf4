"""TodoWrite, AskUserQuestion and plan mode."""
