"""Sandboxes for the commands that tools run: what is allowed (`plan`, `secrets`, `quarantine/`) and how it is enforced
(`linux/`, `seatbelt`). `choose` picks one for a session."""
