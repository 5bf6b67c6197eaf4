"""The prompt box: editor with chips, completion menu, pastes, external editor. `interactive` has history and drafts."""
