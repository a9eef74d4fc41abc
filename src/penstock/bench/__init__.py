"""Experiments: what a pipeline does, measured from outside, on real services."""
