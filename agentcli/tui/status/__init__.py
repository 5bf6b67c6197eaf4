"""The status line, the line above the prompt that shows progress, and the user's own status command."""
