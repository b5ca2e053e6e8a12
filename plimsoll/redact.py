"""Removes credentials from text of others, such as a server's error that repeats the token."""

HIDDEN = "[hidden]"
_SHORTEST = 4
"""Minimum characters of a secret. Removing shorter ones would garble words and hide nothing."""


def redacted(text: str, *secrets: str) -> str:
    """Return the text without these secrets; of one like `Bearer abc`, the last word is the secret."""
    for secret in secrets:
        credential = secret.split(" ")[-1]
        if len(credential) >= _SHORTEST:
            text = text.replace(credential, HIDDEN)
    return text
