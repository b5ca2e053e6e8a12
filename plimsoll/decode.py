"""The exceptions that decoding untrusted JSON can raise."""

import msgspec

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""Not JSON or not of the type; not UTF-8; nested too deeply. The first includes neither of the others."""
