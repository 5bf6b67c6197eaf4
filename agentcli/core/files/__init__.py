"""Files and folders: bounded reads, paths without links, cached listings. Standard library only."""
