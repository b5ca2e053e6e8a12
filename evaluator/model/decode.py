"""What decoding JSON that somebody else wrote can raise: one name for it, so that no reader forgets one."""

import msgspec

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""No JSON or not of the type, no UTF-8, nested too deeply: the first includes neither of the others."""
