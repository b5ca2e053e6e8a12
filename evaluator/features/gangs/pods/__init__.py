"""Pods as gangs see them: membership, quality of service and shape, as decoded. Pure."""
