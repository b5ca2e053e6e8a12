"""What the pages of the ops port show: policies, nodes, pods and metrics as plain data, ready for JSON.

Pure: the current decisions, readings and caches in, dicts out. Work that grows with the cluster is done in steps.
"""
