"""Layer 3: the agent loop. `engine` is the conversation, `loop/` one submission, `toolcalls/` its calls.

The other folders are what an engine keeps up to date: context, cache, costs, and updates for the model.
"""
