"""Write, Edit and MultiEdit, and shared code: encodings, atomic replacement, diffs, and the read cache."""
