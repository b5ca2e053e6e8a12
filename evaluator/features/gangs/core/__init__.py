"""Pod groups, packing, reservations and decide(): which gates to remove now, and what to report about groups that wait.

Pure; imports `cache`, `policy` and `model`.
"""
