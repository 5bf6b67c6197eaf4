"""MCP servers in a conversation: their tools for the model, and their requests to the user.

Here and not in `agentcli/mcp/`, because it needs tools, context, permissions and providers, which are its siblings.
"""
