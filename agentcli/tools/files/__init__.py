"""Read, Write, Edit and MultiEdit, and what they share: encodings, atomic replacement, diffs, and what the model has
read.
"""
