"""The deciding part of a client, sans-I/O: no sockets, no asyncio, no clock. Time and bytes are handed in."""
