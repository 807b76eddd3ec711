"""The blocking face: the asyncio clients in one background thread per client, and what is fast without it."""
