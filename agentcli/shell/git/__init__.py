"""Checks of git repositories: programs run by their configuration, files that git obeys, files it tracks."""
