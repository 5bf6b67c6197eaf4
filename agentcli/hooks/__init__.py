"""Hooks: the user's commands and Python functions that run at fixed points of a session.

rules    what is configured, and which rules match    command   run a shell command within limits
answers  what the output of a hook means              function  run a Python function within limits
runner   run all matching hooks of an event, report them

Verdicts of the loop are made of their answers in `agent/configured_hooks.py`; settings are read in `assemble/hooks.py`.
"""
