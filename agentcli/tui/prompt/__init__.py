"""The prompt: editor, chips, history, completion and the draft that survives a crash."""
