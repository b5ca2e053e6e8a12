"""The command `clean`: takes off the nodes everything that Plimsoll wrote to them.

Imports `kubeapi` and `plans.node_actions`.
"""
