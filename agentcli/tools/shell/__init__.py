"""Bash and background commands: processes, their output and their environment."""
