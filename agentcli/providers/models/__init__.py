"""Models: names, prices and limits, and the local servers that offer some."""
