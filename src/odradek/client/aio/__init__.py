"""The asyncio shell: sockets, timers and tasks around `odradek.client.core`."""
