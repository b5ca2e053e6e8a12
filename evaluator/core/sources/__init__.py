"""Sources of readings: agents' streams, Prometheus and the custom metrics API.

A source writes into `readings` and reports what changed; it imports no policy code.
"""
