"""The scheduler extender: kube-scheduler's wire format, the filter and prioritize verbs, and the scorers' routes.

Serves finished decisions; imports no `kubeapi`, so that no request can write to the cluster.
"""
