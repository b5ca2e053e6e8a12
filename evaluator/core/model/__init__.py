"""Kubernetes objects as decoded, their scheduling semantics, and arrays over nodes.

Pure, and the lowest package: imports nothing else of the evaluator.
"""
