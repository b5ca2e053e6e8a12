"""How a server's new connections shake hands, and whom it then talks to."""

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Certificate = Mapping[str, Any]
"""A verified client certificate, as ssl.SSLSocket.getpeercert() shows it."""


def _nobody_is_unwelcome(_certificate: Certificate | None) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Tls:
    """A context for a new connection, and what there is to object to a client's certificate, or to its having none.

    An objection is a sentence for the client; an empty one means that it is welcome.
    """

    context: ssl.SSLContext
    objection: Callable[[Certificate | None], str] = _nobody_is_unwelcome
