"""Layer 2: what the model can do. One file and one .md (its description) per tool; `registry` lists them."""
