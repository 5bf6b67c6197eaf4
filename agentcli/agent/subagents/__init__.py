"""Sub-agents: engines that the Task tool starts, each with its own context.

specs        definition of an agent: built in or from a file   setup    how a child engine is built
agents       start, list and stop them: `engine.agents`        run      one agent from its start to its report
updates      messages for the model about agents              shared   the session's hooks, permissions and workspace
earlier      agents of a resumed session, from its log
"""
