"""The scorer interface, the snapshot scorers see, and the mathematics they share.

Pure; imports `model`.
"""
