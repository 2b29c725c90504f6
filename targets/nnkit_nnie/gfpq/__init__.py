"""The NNIE's arithmetic: GFPQ, the integers of biases and multipliers, and the program of its layers."""
