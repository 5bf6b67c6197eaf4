"""Layer 5: the command line. Reads arguments, builds `Options`, imports exactly one front end."""
