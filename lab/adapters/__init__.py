"""How the tools use features: a module of the feature's name has `ADAPTER`, for those that a tool replays or simulates.

Only these modules import a feature, and only that of their name. `registry` finds them by the evaluator's list of features.
"""
