"""Scorers: filters and scores beside the policies. Each is a function of the cluster as it is and of a pod, and nothing else."""
