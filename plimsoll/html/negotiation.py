"""Whether a client wants a page as HTML or as JSON."""

import re

_QUALITY = re.compile(r"q=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?)", re.ASCII)


def prefers_json(accept: str) -> bool:
    """Return whether a client names JSON, and does not want HTML at least as much."""
    qualities = {"application/json": 0.0, "text/html": 0.0}
    for part in accept.lower().split(","):
        kind, *parameters = (text.strip() for text in part.split(";"))
        if kind in qualities:
            quality = next((q for p in parameters if (q := _QUALITY.fullmatch(p))), None)
            qualities[kind] = float(quality.group(1)) if quality else 1.0
    return qualities["application/json"] > qualities["text/html"]
