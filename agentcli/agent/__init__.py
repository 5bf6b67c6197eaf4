"""Layer 3: the agent loop. `engine` owns a conversation, `loop/` runs one submission, `toolcalls/` its tool calls.

The other packages hold the state of an engine: context, cache, costs, sub-agents, MCP, plugins, and updates for the
model.
"""
