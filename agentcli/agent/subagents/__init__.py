"""Sub-agents: engines that the Task tool starts, each with its own context.

specs           what an agent is: built in, or from a file
agents          start, list and stop them: `engine.agents`; what the model is told of them
run             one agent from its start to its report
shared          the session's hooks, permissions and workspace
"""
