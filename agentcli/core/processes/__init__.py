"""Processes: starting programs safely, finding them, ending what they leave. Standard library only."""
