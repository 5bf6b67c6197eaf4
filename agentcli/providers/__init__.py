"""Layer 2: talking to a model. `base` is the contract; the rest implements it or helps to."""
