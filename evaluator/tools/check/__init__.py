"""`plimsoll check`: reports mistakes in policy manifests and explains each rule.

Only `live` makes requests, to a running evaluator.
"""
