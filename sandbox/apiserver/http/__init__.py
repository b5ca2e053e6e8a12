"""HTTP of the API server: request parsing, content types, watches, discovery, OpenAPI, tables.

Imports all other packages.
"""
