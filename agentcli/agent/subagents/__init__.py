"""Sub-agents: engines that the Task tool starts, each with its own context.

specs        what an agent is: built in, or from a file     setup    what a child engine is made of
agents       start, list and stop them: `engine.agents`     run      one agent from its start to its report
updates      what the model is told about agents            hooks    the session's hooks, as an agent gets them
permissions  the session's permissions, as an agent has them
earlier      agents of a resumed session, from its log
"""
