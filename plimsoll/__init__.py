"""What every program shares: flags, logging, HTTP, parsers of common formats, back-off and rate limits.

Imports no other package of this repository.
"""

from importlib import metadata

VERSION = metadata.version("kube-plimsoll")
