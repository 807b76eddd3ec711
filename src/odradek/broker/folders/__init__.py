"""The data folders as a broker finds them: what is in them at a start, and what is lost when one fails."""
