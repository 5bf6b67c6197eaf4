"""Sandboxes for the commands that tools run: what is allowed (`plan`, `secrets`, `planted/`), how (`linux/`,
`seatbelt`), and which one a session gets (`choose`).
"""
