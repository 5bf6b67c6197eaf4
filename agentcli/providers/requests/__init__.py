"""The bytes of a request: its body, its encoding and tools that are loaded later."""
