"""Files that a command must not leave behind: which paths, the check, and the quarantine."""
