"""Regular expressions in flags, validated on the command line."""

import re


def regexp(text: str) -> str:
    """Return a regular expression after validating it."""
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"not a regular expression: {text!r} ({error})") from error
    return text
