"""From the folders that a stop or a crash has left to logs that can be used."""
