"""What to write, computed from decisions: label changes, evictions, requeues, statuses, events, explanations.

Pure; imports `policy`, `cache` and `model`.
"""
