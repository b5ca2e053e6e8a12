"""Serves custom.metrics.k8s.io from the evaluator's readings, behind kube-apiserver's aggregation layer.

Reads `readings` and `cache`; writes nothing to the cluster. `access` authenticates and authorizes.
"""
