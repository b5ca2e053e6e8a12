"""The metric store: the latest reading of every metric on every node, in arrays, and the merge of several sources.

Pure; imports `model`.
"""
