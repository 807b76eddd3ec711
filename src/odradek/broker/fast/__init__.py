"""Short cuts: the usual requests answered from their bytes, as the handlers would."""
