"""Git as permissions see it: programs that its configuration runs, files that it obeys, files that it holds."""
