"""Real TLS handshakes: accepted clients per configuration, and stalled clients delay no other."""

import asyncio
import contextlib
import dataclasses
import gc
import ssl
from http import HTTPStatus
from pathlib import Path

import pytest

from agent.web import tls
from agent.web.config import TlsConfig, WebConfigError
from plimsoll.http.limits import Limits
from plimsoll.http.tls import Tls
from plimsoll.http.types import Request, Response
from sandbox.pki import openssl
from tests.patience import PATIENCE


async def hello(_: Request) -> Response:
    return Response(HTTPStatus.OK, b"hello\n")


@pytest.fixture
def plain(server_pair) -> TlsConfig:
    return TlsConfig(cert_file=str(server_pair[0]), key_file=str(server_pair[1]))


@pytest.fixture
def mutual(plain, authority) -> TlsConfig:
    return dataclasses.replace(
        plain,
        client_auth_type="RequireAndVerifyClientCert",
        client_ca_file=str(authority.file),
    )


async def asks(serve, config: TlsConfig, client: ssl.SSLContext) -> int:
    """The status that this client gets."""
    found = tls.build(config)
    site = await serve(hello, tls=lambda: found)
    connection = await asyncio.wait_for(site.connect(client), PATIENCE)
    # With TLS 1.3 a client learns only on reading that its certificate was rejected.
    return (await asyncio.wait_for(connection.get("/"), PATIENCE)).status


REFUSED = (ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)


async def test_metrics_are_served_over_tls(serve, plain, authority) -> None:
    assert await asks(serve, plain, authority.client()) == 200


async def test_certificate_and_key_may_be_inline(serve, server_pair, authority) -> None:
    cert, key = (path.read_text() for path in server_pair)
    assert await asks(serve, TlsConfig(cert=cert, key=key), authority.client()) == 200


async def test_client_that_does_not_trust_the_certificate_is_not_served(
    serve, plain, untrusted
) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        await asks(serve, plain, untrusted.client())


async def test_client_certificate_may_be_required(serve, mutual, authority, untrusted) -> None:
    pair = authority.issue("prometheus", san="DNS:prometheus")
    assert await asks(serve, mutual, authority.client(*pair)) == 200
    with pytest.raises(REFUSED):
        await asks(serve, mutual, authority.client())
    with pytest.raises(REFUSED):
        await asks(serve, mutual, authority.client(*untrusted.issue("prometheus")))


async def test_optional_client_certificate_must_be_valid(
    serve, mutual, authority, untrusted
) -> None:
    given = dataclasses.replace(mutual, client_auth_type="VerifyClientCertIfGiven")
    assert await asks(serve, given, authority.client()) == 200
    with pytest.raises(REFUSED):
        await asks(serve, given, authority.client(*untrusted.issue("other")))
    ignored = dataclasses.replace(mutual, client_auth_type="RequestClientCert")
    assert await asks(serve, ignored, authority.client(*untrusted.issue("other"))) == 200


@pytest.mark.parametrize(
    ("san", "allowed"),
    [
        ("DNS:prometheus.monitoring", True),
        ("IP:::1", True),
        ("IP:10.0.0.1", True),
        ("URI:spiffe://cluster/prometheus", True),
        ("email:ops@example.com", True),
        ("DNS:other,DNS:prometheus.monitoring", True),
        ("DNS:other", False),
        ("DNS:PROMETHEUS.monitoring", False),
    ],
)
async def test_client_certificates_may_be_limited_by_name(
    serve, mutual, authority, san: str, allowed: bool
) -> None:
    names = ("prometheus.monitoring", "::1", "10.0.0.1")
    names += ("spiffe://cluster/prometheus", "ops@example.com")
    config = dataclasses.replace(mutual, client_allowed_sans=names)
    client = authority.client(*authority.issue("named", san=san))
    assert await asks(serve, config, client) == (200 if allowed else 403)


async def test_tls_versions_have_bounds(serve, plain, authority) -> None:
    old = authority.client()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    assert await asks(serve, plain, old) == 200
    with pytest.raises(REFUSED):
        await asks(serve, dataclasses.replace(plain, min_version="TLS13"), old)
    new = authority.client()
    new.minimum_version = ssl.TLSVersion.TLSv1_3
    with pytest.raises(REFUSED):
        await asks(serve, dataclasses.replace(plain, max_version="TLS12"), new)


async def test_ciphers_may_be_chosen_up_to_tls_1_2(serve, plain, authority) -> None:
    wanted = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    found = tls.build(dataclasses.replace(plain, cipher_suites=(wanted,)))
    site = await serve(hello, tls=lambda: found)
    client = authority.client()
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    connection = await site.connect(client)
    assert connection.writer.get_extra_info("cipher")[0] == "ECDHE-ECDSA-AES256-GCM-SHA384"


async def test_curve_may_be_chosen(serve, plain, authority) -> None:
    client = authority.client()
    client.set_ecdh_curve("secp384r1")
    for curves in (("CurveP384",), ("X25519", "CurveP384")):
        config = dataclasses.replace(plain, curve_preferences=curves)
        assert await asks(serve, config, client) == 200
    with pytest.raises(REFUSED):
        await asks(serve, dataclasses.replace(plain, curve_preferences=("X25519",)), client)


def test_old_versions_may_be_enabled(plain) -> None:
    assert tls.build(dataclasses.replace(plain, min_version="TLS10")).context is not None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"min_version": "TLS14"}, "min_version: 'TLS14' is not one of TLS10"),
        ({"cipher_suites": ("RC4",)}, "cipher_suites: 'RC4' is not one of TLS_AES"),
        ({"curve_preferences": ("P1",)}, "curve_preferences: 'P1' is not one of CurveP256"),
        ({"client_auth_type": "Maybe"}, "client_auth_type: 'Maybe' is not one of NoClientCert"),
        ({"client_auth_type": "RequireAnyClientCert"}, "use RequireAndVerifyClientCert"),
        ({"cert_file": "/nowhere"}, "cert_file /nowhere: No such file"),
        ({"cert_file": "/"}, "cert_file /: Is a directory"),
        ({"cert_file": "/dev/null"}, "certificate and key cannot be loaded: "),
        (
            {"client_auth_type": "VerifyClientCertIfGiven", "client_ca": "x"},
            "client CA cannot be loaded: ",
        ),
    ],
)
def test_unsupported_setting_is_reported_in_a_sentence(plain, change, reason: str) -> None:
    with pytest.raises(WebConfigError, match=f"tls_server_config: .*{reason}|{reason}"):
        tls.build(dataclasses.replace(plain, **change))


def test_wrong_or_encrypted_key_is_reported_in_a_sentence(plain, authority, tmp_path: Path) -> None:
    _, other = authority.issue("other")
    with pytest.raises(WebConfigError, match=r"certificate and key cannot be loaded: .*MISMATCH"):
        tls.build(dataclasses.replace(plain, key_file=str(other)))
    locked = tmp_path / "locked.key"
    openssl(
        *("pkey", "-in", plain.key_file, "-aes256", "-passout", "pass:secret", "-out", str(locked))
    )
    with pytest.raises(WebConfigError, match="the key is encrypted"):
        tls.build(dataclasses.replace(plain, key_file=str(locked)))


@pytest.fixture
def found(plain) -> Tls:
    return tls.build(plain)


async def test_stalled_handshakes_delay_no_other_and_time_out(serve, found, authority) -> None:
    site = await serve(hello, Limits(header=2.0), tls=lambda: found)
    stalled = [await site.connect() for _ in range(20)]
    await stalled[0].say(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
    client = await asyncio.wait_for(site.connect(authority.client()), PATIENCE)
    assert (await client.get("/")).status == 200
    for connection in stalled:
        assert await asyncio.wait_for(connection.ended(), PATIENCE)


async def test_stalled_handshakes_do_not_block_new_clients(serve, found, authority) -> None:
    site = await serve(hello, Limits(connections=4), tls=lambda: found)
    for _ in range(20):
        await site.connect()
    client = await asyncio.wait_for(site.connect(authority.client()), PATIENCE)
    assert (await client.get("/")).status == 200


async def test_plain_http_to_a_tls_port_gets_a_hint_to_use_https(serve, found, authority) -> None:
    site = await serve(hello, tls=lambda: found)
    client = await site.connect()
    await client.say(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    told = await client.rest()
    assert told.startswith(b"HTTP/1.0 400 Bad Request\r\n")
    assert told.endswith(b"use https://\n")
    assert (await (await site.connect(authority.client())).get("/")).status == 200


async def test_client_that_does_not_read_is_closed_with_tls_too(serve, found, authority) -> None:
    async def much(_: Request) -> Response:
        return Response(HTTPStatus.OK, bytes(64 << 20))

    site = await serve(much, Limits(send=0.1), tls=lambda: found)
    client = await site.connect(authority.client())
    await client.say(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    while site.server._pool.tasks:
        await asyncio.wait(site.server._pool.tasks, timeout=PATIENCE)
    with pytest.raises(REFUSED):
        await asyncio.wait_for(client.reply(), PATIENCE)


async def test_closing_ends_tls_connections_and_handshakes(serve, found, authority) -> None:
    site = await serve(hello, tls=lambda: found)
    stalled, idle = await site.connect(), await site.connect(authority.client())
    assert (await idle.get("/")).status == 200
    await asyncio.wait_for(site.server.close(), PATIENCE)
    for client in (stalled, idle):
        with contextlib.suppress(ssl.SSLError, ConnectionError):
            assert await asyncio.wait_for(client.ended(), PATIENCE)


async def test_client_that_leaves_unread_data_leaves_no_socket(
    serve, plain, authority, until
) -> None:
    """The end is noticed only by reading; a garbage collection that would find the socket may be hours away."""
    go_on, asked = asyncio.Event(), asyncio.Event()

    async def slow(request: Request) -> Response:
        asked.set()
        await go_on.wait()
        return Response(HTTPStatus.OK, b"late")

    found = tls.build(plain)
    site = await serve(slow, Limits(linger=0.05), tls=lambda: found)
    before = open_sockets()
    client = await site.connect(authority.client())
    await client.say(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" + bytes(64 << 10))
    await asked.wait()
    gc.disable()
    try:
        client.vanish()
        await until(lambda: open_sockets() <= before + 1)
        go_on.set()
        await until(lambda: open_sockets() <= before)
    finally:
        gc.enable()


def open_sockets() -> int:
    found = 0
    for path in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the process that lists them has exited by then
            found += str(path.readlink()).startswith("socket:")
    return found
