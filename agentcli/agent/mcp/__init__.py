"""MCP servers in a conversation: their tools for the model, and what servers ask of the user."""
