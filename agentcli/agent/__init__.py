"""Layer 3: the agent loop. `engine` is the conversation, `loop` one submission, the rest their stages."""
