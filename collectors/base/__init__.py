"""The collector interface: samples, metric tables, the host's roots, and the registry and catalog of all collectors.

Only `registry` imports collectors.
"""
