"""Regular expressions as flags: a wrong one is a mistake of the command line, not a surprise in the first round."""

import re


def regexp(text: str) -> str:
    """A regular expression as it was given, checked."""
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"not a regular expression: {text!r} ({error})") from error
    return text
