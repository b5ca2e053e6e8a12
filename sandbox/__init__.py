"""A cluster on one machine: an in-memory API server, real agents, the real evaluator and a scheduler.

Starts the programs as processes; never imports `agent` or `evaluator`.
"""
