"""What looks back at sessions: rewinding, trees of branches, replays, traces, bisecting, blaming, exports.

Everything here is read from the session file (`session/timeline.py`) and from the snapshots of the workspace; nothing
is stored a second time.
"""
