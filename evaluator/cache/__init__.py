"""State of the cluster as its watches report it: nodes, policies, pods, and indexes over them.

Pure, changed in place by one thread; imports `policy`, `model` and below.
"""
