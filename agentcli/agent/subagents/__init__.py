"""Sub-agents: engines that the Task tool starts, each with its own context.

specs           what an agent is: built in, or from a file
agents          start, list and stop them: `engine.agents`
setup           what a child engine is made of
run             one agent from its start to its report
updates         agents as the model learns of them
shared          the session's hooks, permissions and workspace
earlier_agents  agents of a resumed session, from its log
"""
