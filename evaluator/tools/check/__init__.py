"""`plimsoll-evaluator check`: reports mistakes in policy manifests and explains each rule, offline.

Imports `policy` and `model`; reaches no API server.
"""
