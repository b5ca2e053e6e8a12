"""Credentials of a stream to the evaluator: certificate files and a token, read for each attempt.

Files may therefore be rotated without a restart, and a file that is wrong for a moment only fails a few attempts.
"""

import ssl
from dataclasses import dataclass
from pathlib import Path

import grpc

Metadata = tuple[tuple[str, str], ...]


class CredentialsError(Exception):
    """A file cannot be used; the message names it."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Paths; empty if not used. `server_name`: the name that the evaluator's certificate must have."""

    ca: str
    cert: str = ""
    key: str = ""
    token: str = ""
    server_name: str = ""

    def load(self) -> tuple[grpc.ChannelCredentials, Metadata]:
        """Read the files and return channel credentials and call metadata. Raises CredentialsError."""
        self._check()
        pair = (_read(self.key), _read(self.cert)) if self.cert else (None, None)
        return grpc.ssl_channel_credentials(_read(self.ca), *pair), self._metadata()

    def _check(self) -> None:
        """Validate the files: gRPC accepts any bytes and would only report a failed handshake."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            context.load_verify_locations(self.ca)
        except (OSError, ssl.SSLError) as error:
            raise CredentialsError(f"CA {self.ca} cannot be used: {error}") from error
        if not self.cert:
            return
        try:
            # Without a password callback, OpenSSL would prompt for one on the terminal and wait.
            context.load_cert_chain(self.cert, self.key, password="")
        except (OSError, ssl.SSLError) as error:
            raise CredentialsError(
                f"certificate {self.cert} with key {self.key} cannot be used: {error}"
            ) from error

    def _metadata(self) -> Metadata:
        if not self.token:
            return ()
        token = _read(self.token).decode("ascii", "replace").strip()
        # An invalid token would be rejected as metadata too, but with the token in the error.
        if not token.isascii() or not token.isprintable() or not token or " " in token:
            raise CredentialsError(f"no valid token in {self.token}")
        return (("authorization", f"Bearer {token}"),)


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise CredentialsError(f"{path}: {error.strerror}") from error
