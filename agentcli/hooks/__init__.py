"""Hooks: the user's commands and Python functions that run at fixed points of a session.

rules    parse rules from settings and match them      command   run a shell command with limits
answers  interpret the output of a hook                function  run a Python function with limits
runner   run all matching hooks of an event, report them

`agent/hooks.py` turns their answers into verdicts for the loop; `assemble/hooks.py` reads settings.
"""
