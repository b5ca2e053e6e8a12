"""The gRPC server of the agents' port. Imports nothing of the evaluator but `calls`, to be small in a process of its own."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

import grpc

from evaluator.core.sources.agents.calls import (
    CallEndedError,
    Caller,
    Code,
    Pem,
    Serve,
    ServerOptions,
)
from plimsoll.process import garbage

_SERVICE = "plimsoll.telemetry.v1.Telemetry"

Context = grpc.aio.ServicerContext[bytes, bytes]


class GrpcPort:
    """A gRPC server with the service of agents. Messages are bytes: malformed ones are handled by what serves the calls."""

    def __init__(self, address: str, certificate: Callable[[], Pem] | None = None) -> None:
        """`certificate`: the current one, called by gRPC's thread for each new connection; None: plain text."""
        self._address = address
        self._certificate = certificate
        self._server: grpc.aio.Server | None = None
        self._serve: Serve

    async def open(self, serve: Serve, options: ServerOptions) -> int:
        """Listen and return the port. Raises OSError if the address cannot be bound."""
        self._serve = serve
        server = grpc.aio.server(options=options.channel, maximum_concurrent_rpcs=options.calls)
        handler: Any = grpc.stream_stream_rpc_method_handler(self._stream)
        service = grpc.method_handlers_generic_handler(_SERVICE, {"Stream": handler})
        server.add_generic_rpc_handlers((service,))
        try:
            port = (
                server.add_insecure_port(self._address)
                if self._certificate is None
                else server.add_secure_port(self._address, _credentials(self._certificate))
            )
        except RuntimeError as error:
            # gRPC does not say why.
            raise OSError(
                f"cannot listen for agents on {self._address}: in use, or not an address of this machine"
            ) from error
        await server.start()
        self._server = server
        return port

    async def close(self) -> None:
        """End all calls and stop listening."""
        if self._server is not None:
            await self._server.stop(grace=0)

    async def _stream(self, _requests: object, context: Context) -> None:
        """Serve one call, and count its end."""
        try:
            await self._serve(GrpcCall(context))
        finally:
            garbage.OF_THIS_PROCESS.ended()


class GrpcCall:
    """A call of gRPC's asyncio server."""

    def __init__(self, context: Context) -> None:
        self._context = context

    @property
    def caller(self) -> Caller:
        """The client."""
        context = self._context
        auth = context.auth_context()
        return Caller(
            context.peer(),
            certified(auth),
            is_resumed(auth),
            bearer(context.invocation_metadata() or ()),
        )

    async def read(self) -> bytes | None:
        """Return the next message; None after the last one."""
        message: object = await self._context.read()
        return message if isinstance(message, bytes) else None

    async def write(self, message: bytes) -> None:
        """Send a message. Raises CallEndedError."""
        try:
            await self._context.write(message)
        except (grpc.RpcError, grpc.aio.BaseError, asyncio.InvalidStateError) as error:
            raise CallEndedError(str(error)) from error

    async def abort(self, code: Code, sentence: str) -> NoReturn:
        """End the call with a status; without one if gRPC can no longer send it because the transport is closing.

        gRPC keeps the exception of an abort in the call. Its traceback refers to frames that refer to the call: 2 KB for each
        rejected call until the garbage collector runs. Raises asyncio.CancelledError, always: gRPC ends the call on it.
        """
        try:
            await self._context.abort(grpc.StatusCode[code], sentence)
        except grpc.aio.AbortError as sent:
            sent.__traceback__ = None
        except grpc.aio.InternalError:
            pass  # the client has gone
        raise asyncio.CancelledError


def _credentials(certificate: Callable[[], Pem]) -> grpc.ServerCredentials:
    """Return credentials with the current certificate: TLS 1.2 or newer; with a CA, client certificates signed by it are required."""
    served = certificate()

    def changed() -> grpc.ServerCertificateConfiguration | None:
        nonlocal served
        newest = certificate()
        if newest == served:
            return None
        served = newest
        return _configuration(newest)

    return grpc.dynamic_ssl_server_credentials(
        _configuration(served),
        changed,  # type: ignore[arg-type]  # None: as before
        require_client_authentication=bool(served.ca),
    )


def _configuration(pem: Pem) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(pem.key, pem.cert)], pem.ca or None)


def is_resumed(auth: Mapping[str, Iterable[bytes]]) -> bool:
    """Return whether a connection resumed a TLS session, as gRPC reports it."""
    return b"true" in auth.get("ssl_session_reused", ())


def certified(auth: Mapping[str, Iterable[bytes]]) -> tuple[str, ...]:
    """Return the names in a verified client certificate: common name and DNS names, as listed by gRPC."""
    names = (*auth.get("x509_common_name", ()), *auth.get("peer_dns", ()))
    return tuple(name.decode("utf-8", "replace") for name in names)


def bearer(metadata: Iterable[tuple[str, str | bytes]]) -> str:
    """Return the token of `authorization: Bearer` in a call's metadata; empty if there is none."""
    for name, value in metadata:
        if name == "authorization" and isinstance(value, str):
            scheme, _, token = value.partition(" ")
            if scheme.lower() == "bearer":
                return token.strip()
    return ""
