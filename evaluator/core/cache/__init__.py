"""State of the cluster from its watches: nodes, policies, pods, and indexes over them.

Pure, changed in place by one thread; imports `policy`, `model` and below.
"""
