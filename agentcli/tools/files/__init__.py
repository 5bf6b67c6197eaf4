"""Write, Edit and MultiEdit, and what the file tools share: encodings, atomic replacement, diffs, and what the model
has read.
"""
