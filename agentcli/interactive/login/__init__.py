"""Connecting a model: the dialog without a screen, its work, and switching the provider."""
