"""The memory that a log has of producers: sequences, transactions, how many there may be."""
