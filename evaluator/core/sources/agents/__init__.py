"""The gRPC port for agents: authentication, stream protocol, limits.

Imports `readings`, `kubeapi` for token reviews, and `wire`.
"""
