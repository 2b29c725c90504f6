"""Verification: float against Program, Program against the artifact, gates."""
