"""Recipes that run as they are, a folder each, with the models and images they need."""
