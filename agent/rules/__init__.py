"""Recording rules on the node: Prometheus' rule files and a node's subset of PromQL, over the node's own samples."""
