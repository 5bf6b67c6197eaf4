"""Layer 4: how this installation is. One check a function, each yielding findings; no front end is known here.

examine   all checks in their order            finding   what a check says, and how it is laid out as lines
machine   versions, programs, file watches     terminal  what can be shown, typed (asking) and copied
settings  files, trust, folders, sessions      model     key, endpoint
sandbox   what the sandbox holds, by trial

Nothing is changed and, unless asked for, nobody is contacted; keys are never read out, only where they come from.
"""
