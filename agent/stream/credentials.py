"""What a stream to the evaluator shows and what it checks: certificate files and a token, read anew for each attempt.

So whatever rotates them needs to tell nobody, and a file that is wrong for a while costs a few attempts.
"""

import ssl
from dataclasses import dataclass
from pathlib import Path

import grpc

Metadata = tuple[tuple[str, str], ...]


class CredentialsError(Exception):
    """A file that cannot be used; the sentence names it."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Paths; empty for what is not used. `server_name` is what the evaluator's certificate has to be for."""

    ca: str
    cert: str = ""
    key: str = ""
    token: str = ""
    server_name: str = ""

    def load(self) -> tuple[grpc.ChannelCredentials, Metadata]:
        """What a channel needs, and what its calls send along. Reads files; raises CredentialsError."""
        self._check()
        pair = (_read(self.key), _read(self.cert)) if self.cert else (None, None)
        return grpc.ssl_channel_credentials(_read(self.ca), *pair), self._metadata()

    def _check(self) -> None:
        """gRPC takes any bytes, and says of bad ones only that a handshake failed."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            context.load_verify_locations(self.ca)
        except (OSError, ssl.SSLError) as error:
            raise CredentialsError(f"CA {self.ca} cannot be used: {error}") from error
        if not self.cert:
            return
        try:
            # Without a password to try, OpenSSL would ask for one on the terminal, and wait.
            context.load_cert_chain(self.cert, self.key, password="")
        except (OSError, ssl.SSLError) as error:
            raise CredentialsError(
                f"certificate {self.cert} with key {self.key} cannot be used: {error}"
            ) from error

    def _metadata(self) -> Metadata:
        if not self.token:
            return ()
        token = _read(self.token).decode("ascii", "replace").strip()
        # What is no token would not pass as metadata either, and the error would show it.
        if not token.isascii() or not token.isprintable() or not token or " " in token:
            raise CredentialsError(f"there is no token in {self.token}")
        return (("authorization", f"Bearer {token}"),)


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise CredentialsError(f"{path}: {error.strerror}") from error
