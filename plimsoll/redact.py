"""Takes credentials out of what others say: a server that repeats them when it refuses them must not bring them into the log."""

HIDDEN = "[hidden]"
_SHORTEST = 4
"""Characters. To take out what is shorter would spoil words and hide nothing."""


def redacted(text: str, *secrets: str) -> str:
    """The text without these secrets in it; of one like `Bearer abc`, the last word is the secret."""
    for secret in secrets:
        found = secret.split(" ")[-1]
        if len(found) >= _SHORTEST:
            text = text.replace(found, HIDDEN)
    return text
