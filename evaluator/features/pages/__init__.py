"""The pages of the ops port: JSON at /explain, and pages for a browser with the same data.

Imports no client of the API server: what answers a request cannot write.
"""
