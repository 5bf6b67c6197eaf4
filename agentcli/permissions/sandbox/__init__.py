"""Sandboxes for the commands that tools run: what is allowed (`plan`, `protected`, `secrets`), how (`bubblewrap`,
`seatbelt`), whether it works here (`probe`), and which one a session gets (`choose`)."""
