"""How MCP servers are reached: as programs, over HTTP and over SSE."""
