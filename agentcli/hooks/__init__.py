"""Hooks: the user's commands and Python functions that run at fixed points of a session.

rules    parse rules from settings and match them
answers  interpret the output of a hook
runner   run all matching hooks of an event within limits, report them

`agent/configured_hooks.py` turns their answers into verdicts for the loop; `assemble/hooks.py` reads settings.
"""
