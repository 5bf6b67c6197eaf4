"""Permission decisions: rules, modes and the policy. Nothing here runs a command or asks the user.

`rules/` parses and matches rules, `policy` decides. `agentcli.shell` analyses commands, `agentcli.sandbox` contains
them.
"""
