"""The shell of the transaction coordinator, and what transactions mean for a produce."""
