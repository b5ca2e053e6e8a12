"""A stand-in for kube-scheduler: queue, queueing hints, fit, constraints, extender calls.

Imports `sandbox.client`; the rules are Kubernetes' own and are tested against a real kube-scheduler.
"""
