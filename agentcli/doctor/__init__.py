"""Checks of this installation. One function per check, each yielding findings; independent of front ends.

checks         all checks in their order            finding        the result of a check, and its layout as text
check_context  the input of the checks              machine        versions, programs, file watches
terminal       display, keyboard, clipboard         settings       files, trust, folders, sessions
servers        MCP servers                          foreign        files of other agents
model          key, endpoint                        sandbox        the active sandbox
sandbox_trial  tests of the sandbox's promises

No user file is changed. No server is contacted unless requested. Keys are never shown, only their source.
"""
