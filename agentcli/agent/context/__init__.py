"""The context on a live conversation:
compaction and its undo, collapse, pins and drops, the report of what fills it.
"""
