"""Layer 4: checks of this installation. One function per check, each yielding findings; independent of front ends.

checks    all checks in their order            finding   the result of a check, and its layout as text
machine   versions, programs, file watches     terminal  display, keyboard, clipboard
settings  files, trust, folders, sessions      model     key, endpoint
sandbox   the active sandbox                   sandbox_trial  tests of its promises

No user file is changed. No server is contacted unless requested. Keys are never shown, only their source.
"""
