"""`plimsoll check-apiservice`: whether the custom metrics API can be, or is, served by Plimsoll.

Imports `evaluator.core.kube` and below.
"""
