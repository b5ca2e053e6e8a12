"""A small Kubernetes client of the sandbox's own: requests, informers, events.

Imports `plimsoll` only.
"""
