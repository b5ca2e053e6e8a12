"""Why a client is not authenticated."""


class InvalidTokenError(Exception):
    """A token that authenticates no client of this port; the message is logged and sent to the client."""


class UnreviewedError(Exception):
    """The API server could not be asked now; nothing is known about the token or the permission."""
