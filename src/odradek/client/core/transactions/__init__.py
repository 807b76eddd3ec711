"""A transactional producer's half of transactions, as a state machine (docs/client/transactions.md)."""
