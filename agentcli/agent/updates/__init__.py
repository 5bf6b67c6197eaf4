"""Updates for the model beside prompts and results: changed files, instruction files, undo, background commands."""
