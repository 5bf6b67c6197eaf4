"""Sandboxes for the commands that tools run: what is allowed (`plan`, `secrets`, `planted/`) and how (`linux/`,
`seatbelt`). Which one a session gets: `permissions/choose_sandbox.py`.
"""
