"""Layer 2: requests to a model. `base` is the contract that the other modules implement."""
