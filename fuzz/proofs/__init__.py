"""Proofs over all inputs: the emitted C of small layers, interpreted over intervals by Frama-C's Eva."""
