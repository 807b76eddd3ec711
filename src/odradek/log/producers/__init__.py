"""What a log remembers of producers: sequences, transactions, how many there may be."""
