"""Changes of the context that need the session: summaries by a model, files read again, prices of a user's edits.

What only computes on messages is in `agentcli.context`. Here is what calls a model (`compaction`, `collapse`), reads
files, skills, tasks and permissions (`compaction_plan`, `compaction_restore`), or follows the running submission
(`control`).
"""
