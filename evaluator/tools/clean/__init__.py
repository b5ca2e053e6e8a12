"""The command `clean`: takes off the nodes everything that Plimsoll wrote to them.

Imports `kube` and the list of features, which know what they wrote.
"""
