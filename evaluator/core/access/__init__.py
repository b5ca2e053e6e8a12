"""Authentication and authorization of the ports that users reach, delegated to the API server as aggregated API servers do.

Imports the packages below `evaluator.core.sources`; answers no requests itself.
"""
