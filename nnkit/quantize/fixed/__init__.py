"""The lowering to power-of-two fixed point, one op a file: the formats that its arithmetic needs, and its op."""
