"""Layer 2: what the model can do. One file and one .md (its description) per tool, by topic; `registry` lists them."""
