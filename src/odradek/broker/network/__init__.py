"""Sockets: what listens, what a connection takes in, how answers leave."""
