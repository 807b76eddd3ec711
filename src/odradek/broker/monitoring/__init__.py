"""What an operator reads of a broker over HTTP: its metrics, and whether it is healthy and ready."""
