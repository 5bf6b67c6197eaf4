"""Layer 0: values and mechanics. Standard library only; imports nothing else of this package."""
