"""The status line, the activity line above the prompt, and the user's own status command."""
