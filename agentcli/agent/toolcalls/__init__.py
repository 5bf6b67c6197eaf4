"""Tool calls of one reply: when each runs, its data (`calls`), and its steps from block to result (`toolcall`)."""
