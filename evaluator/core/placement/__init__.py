"""Pods placed since a reading: how much each adds to a metric, and rankings and violations that include them.

A reading describes a node before the pods that were placed since. Ranking by readings alone sends all pods of a burst to the
node that was best at the last one (Mitzenmacher, "How useful is old information?", IEEE TPDS 11(1), 2000). kube-scheduler
itself counts a pod as soon as it has chosen a node.

From the bottom up: `measures`, which resource a metric measures; `ledger`, the pods; `learned`, what pods were seen to add;
`estimates`, what each adds; `placements`, decisions that include them;
`explain`, these in words. Pure: times are arguments, in seconds of one clock.
"""
