"""Layer 2: tools that the model can call. Each tool has a module and a .md file (its description); `registry` lists
them."""
