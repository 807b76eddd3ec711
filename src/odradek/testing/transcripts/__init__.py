"""Transcripts: what a client and brokers have said to each other, recorded, masked, and played to a client.

`conversation` knows what a frame is, `addresses` sends clients back to whoever records or plays, `masking`
hides what others must not see, `script` has the requests of a transcript with their answers and says where a
client departs from them. These have no I/O. `recorder` and `player` are the servers.
"""
