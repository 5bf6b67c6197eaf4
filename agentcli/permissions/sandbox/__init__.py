"""Sandboxes for the commands that tools run: what is allowed (`plan`, `secrets`, `planted/`) and how it is enforced
(`linux/`, `seatbelt`). `permissions/choose_sandbox.py` chooses one for a session."""
