"""Answers of MCP servers: read without trust, within limits and off the event loop."""
