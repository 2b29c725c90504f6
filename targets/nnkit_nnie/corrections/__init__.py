"""Corrections of weights and biases before the mapper quantises them, each judged before it stays."""
