"""Questions in plain mode: how they are asked, each kind, and what is asked about."""
