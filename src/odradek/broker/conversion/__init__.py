"""Records between message formats, in threads."""
