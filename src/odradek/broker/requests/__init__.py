"""One request: who asks, what its handler knows of it and may do, the answer that leaves for it."""
