"""Pod groups, packing, reservations and decide(): which gates to remove now, what to report about groups that wait, and
why pods are missing.

Pure; imports `cache`, `policy` and `model`.
"""
