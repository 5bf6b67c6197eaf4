"""Layer 0: values and basic mechanics. Standard library only; imports no other package of agentcli."""
