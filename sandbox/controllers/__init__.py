"""Stand-ins for kube-controller-manager and kubelet: Deployments, ReplicaSets, pods, node heartbeats.

Import `sandbox.client`; never the API server's storage.
"""
