"""Sub-agents: engines that the Task tool starts, each with its own context.

specs           what an agent is: built in, or from a file
agents          start, list and stop them: `engine.agents`

run             one agent from its start to its report
updates         agents as the model learns of them
shared          the session's hooks, permissions and workspace
"""
