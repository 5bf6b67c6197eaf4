"""Layer 2: the tools of the model. Each tool has a module and a .md file (its description); `registry` lists them."""
