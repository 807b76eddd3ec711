"""The talk among brokers: the channels, and who uses them.

`channel` is the seam: a real one is a connection, a simulated one hands frames over in memory.
"""
