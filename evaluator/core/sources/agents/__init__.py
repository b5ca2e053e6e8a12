"""The gRPC port for agents: authentication, stream protocol, limits.

Imports `readings`, `kube` for token reviews, and `wire`.
"""
