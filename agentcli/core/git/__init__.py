"""Git as agentcli runs it for itself."""
