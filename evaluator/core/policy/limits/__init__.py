"""Limits on the metrics and rules of all policies together, divided by namespace, then by policy."""
