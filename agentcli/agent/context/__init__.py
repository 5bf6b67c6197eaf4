"""The context of a live conversation: compaction and its undo, collapse, pins and drops, and the `/context` report."""
