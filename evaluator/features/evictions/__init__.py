"""Evictions of pods from nodes that violate the `deschedule` strategy of their policy (--evict)."""
