"""Transports: send one request to a model and yield the raw events of its reply."""
