"""What a collector gets and returns: the host, samples, metric tables, errors.

Imports no collector and no other package of `collectors`.
"""
