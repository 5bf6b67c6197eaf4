"""MCP servers in a conversation: their tools for the model, and their requests to the user."""
