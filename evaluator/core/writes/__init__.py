"""Control loops that reconcile the cluster with the decisions: node labels, status, events, evictions, requeues, rewards.

Run by the leader; import `plans` for what to write and `kubeapi` for writing it.
"""
