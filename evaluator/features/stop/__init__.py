"""The stop: a ConfigMap of the evaluator's namespace that freezes policies, or makes them observed.

`entries` is pure: what the object says. `state` is what is known of it now, `feature` what statuses, pages and metrics show.
"""
