"""Which layers need 16 bits: the network measured with any set of them, and searches for the set to take."""
