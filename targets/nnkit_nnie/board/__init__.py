"""What runs on the board: the segments in C, a program around them, and what it is tried with."""
