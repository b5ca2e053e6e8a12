"""What every program shares: flags, logging, HTTP, pages for browsers, parsers of common formats, back-off and rate limits.

Imports no other package of this repository.
"""

VERSION = "0.1.0"
"""The version of all programs. pyproject.toml takes it from here: to read it from the installed package's metadata would
import modules of 4 MB."""
