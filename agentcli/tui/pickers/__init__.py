"""Lists to choose from: model, effort, mode, session, theme."""
