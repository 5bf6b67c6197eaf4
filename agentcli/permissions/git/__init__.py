"""Git checks for permissions: programs run by its configuration, files it obeys, files it tracks."""
