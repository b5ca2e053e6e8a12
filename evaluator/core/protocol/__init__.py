"""kube-scheduler's extender protocol: requests and responses as JSON."""
