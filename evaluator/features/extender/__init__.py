"""The scheduler extender: the filter and prioritize verbs of kube-scheduler.

Serves finished decisions; imports no `kube`, so that no request can write to the cluster.
"""
