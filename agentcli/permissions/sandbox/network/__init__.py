"""Allowed hosts: the proxy outside of the sandbox, its port inside, and the machine's own proxy."""
