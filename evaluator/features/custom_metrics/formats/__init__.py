"""Paths, documents and lists of custom.metrics.k8s.io. Pure: bytes and numbers in, bytes out."""
