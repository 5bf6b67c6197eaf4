"""Layer 2: what people have written down for the model: instruction files and what they import. Reads, never writes."""
