"""Checks of this installation. Each is a function that yields findings; independent of front ends."""
