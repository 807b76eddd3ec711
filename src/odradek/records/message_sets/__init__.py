"""Message sets of magic 0 and 1: how records stood in logs and on the wire before record batches."""
