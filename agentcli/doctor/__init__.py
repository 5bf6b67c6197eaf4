"""Layer 4: how this installation is. One check a function, each yielding findings; no front end is known here.

examine   all checks in their order            finding   what a check says, and how it is laid out as lines
machine   versions, programs, file watches     terminal  what can be shown, typed (asking) and copied
settings  files, trust, folders, sessions      model     key, endpoint
sandbox   which sandbox there is               sandbox_trial, trial_listener  each of its promises, tried

Nothing of the user's is changed. No server is contacted unless asked for. Of keys only the source is shown.
"""
