"""`agentcli mcp`: manage MCP servers, sign in to them, and serve agentcli's tools."""
