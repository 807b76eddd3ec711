"""Records written anew in another format: for a log, for an old consumer, with another codec."""
