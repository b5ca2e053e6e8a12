"""Response headers of pages: a browser loads nothing from elsewhere, runs no inline script, and keeps no copy."""

_SAFE = (("x-content-type-options", "nosniff"), ("referrer-policy", "no-referrer"))

POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; frame-ancestors 'none'; form-action 'self'"
)
"""The Content-Security-Policy. `connect-src`: the script fetches its own page; `form-action`: the search."""

UNCACHED = (*_SAFE, ("cache-control", "no-store"))
"""Of JSON and errors."""
PAGE = (("content-security-policy", POLICY), *UNCACHED)
"""Of HTML."""
ASSET = (*_SAFE, ("cache-control", "public, max-age=31536000, immutable"))
"""Of files whose name has their hash."""
