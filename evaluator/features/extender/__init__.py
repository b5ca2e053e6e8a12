"""The scheduler extender: the filter, prioritize and preempt verbs of kube-scheduler.

Serves finished decisions; imports no `kube`, so that no request can write to the cluster.
"""
