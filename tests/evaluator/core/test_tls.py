"""A port with mutual TLS: only a client with a certificate of the CA is accepted."""

import asyncio
import json
import shutil
import ssl
import subprocess
from http import HTTPStatus

import aiohttp
import pytest

from evaluator.core import tls
from evaluator.core.http.ports import SharedRoutes
from evaluator.core.http.responses import RouteGroup
from evaluator.core.metrics import Metrics
from evaluator.core.tls import TlsError
from plimsoll.http.routes import Route
from plimsoll.http.types import Response
from sandbox.pki import CertificateAuthority, openssl

pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not on PATH")

BODY = json.dumps({"NodeNames": ["a"]}).encode()


@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    """Two CAs; from the first a server and a client certificate, from the second a client certificate."""
    folder = tmp_path_factory.mktemp("pki")
    ca, other = CertificateAuthority(folder), CertificateAuthority(folder, "other-ca")
    for name, authority in (("server", ca), ("client", ca), ("stranger", other)):
        authority.issue(name, san="IP:127.0.0.1")
    locked = ("-aes256", "-passout", "pass:secret", "-out", str(folder / "locked.key"))
    openssl("ec", "-in", str(folder / "server.key"), *locked)
    (folder / "garbage").write_text("-----BEGIN CERTIFICATE-----\nno\n-----END CERTIFICATE-----\n")
    return folder


def files(pki):
    return tls.Files(str(pki / "server.crt"), str(pki / "server.key"), str(pki / "ca.crt"))


async def echo(request):
    """Answer with the body of the request."""
    return Response(HTTPStatus.OK, request.body, "application/json")


@pytest.fixture
async def listening(serve):
    """Start a server with these certificate files; return its port."""

    async def start(found, names=()):
        metrics = Metrics()
        shared = SharedRoutes([RouteGroup({"/echo": Route(echo, ("POST",))})])
        rotation = tls.rotation(found, names=names, on_change=metrics.reloaded("extender"))
        site = await serve(shared.routes.answer, refuse=shared.refuse, tls=rotation.current)
        return site.address.port

    return start


@pytest.fixture
async def port(pki, listening):
    return await listening(files(pki))


def client(pki, who=None):
    context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
    context.verify_flags |= ssl.VERIFY_X509_STRICT  # the default from Python 3.13 on
    if who:
        context.load_cert_chain(str(pki / f"{who}.crt"), str(pki / f"{who}.key"))
    return context


async def ask(port, context):
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"https://127.0.0.1:{port}/echo", data=BODY, ssl=context) as response,
    ):
        return response.status, await response.json()


async def test_client_with_a_certificate_is_answered(port, pki):
    status, reply = await ask(port, client(pki, "client"))
    assert (status, reply["NodeNames"]) == (200, ["a"])


@pytest.mark.parametrize("who", [None, "stranger"], ids=["no certificate", "another CA's"])
async def test_other_client_is_rejected(port, pki, who):
    with pytest.raises((aiohttp.ClientError, ssl.SSLError, ConnectionError)):
        await ask(port, client(pki, who))
    assert (await ask(port, client(pki, "client")))[0] == 200


async def test_plain_http_is_rejected(port):
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"http://127.0.0.1:{port}/echo", data=BODY) as response,
    ):
        assert response.status == 400
        assert "HTTPS" in await response.text()


async def test_tls_before_1_2_is_rejected(pki):
    context = tls.server_context(files(pki))
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context.verify_mode is ssl.CERT_REQUIRED


async def test_truncated_body_over_tls_does_no_harm(port, pki):
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client(pki, "client"))
    writer.write(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n{")
    await writer.drain()
    writer.close()
    await writer.wait_closed()
    del reader
    assert (await ask(port, client(pki, "client")))[0] == 200


@pytest.mark.parametrize(
    ("cert", "key", "ca", "names"),
    [
        ("none.crt", "server.key", "ca.crt", "--cert .*none.crt"),
        ("server.crt", "none.key", "ca.crt", "--key .*none.key"),
        ("server.crt", "client.key", "ca.crt", "--key .*client.key"),
        ("garbage", "server.key", "ca.crt", "--cert .*garbage"),
        ("server.crt", "garbage", "ca.crt", "--key .*garbage"),
        ("server.crt", "locked.key", "ca.crt", "--key .*locked.key"),
        ("server.crt", "server.key", "none.crt", "--cacert .*none.crt"),
        ("server.crt", "server.key", "garbage", "--cacert .*garbage"),
        ("server.crt", "server.key", "server.key", "--cacert .*server.key"),
        (".", "server.key", "ca.crt", "--cert"),
        ("server.crt", "server.key", ".", "--cacert"),
    ],
)
def test_unusable_file_is_named_in_a_sentence(pki, cert, key, ca, names):
    with pytest.raises(TlsError, match=names) as refused:
        tls.server_context(tls.Files(str(pki / cert), str(pki / key), str(pki / ca)))
    assert "\n" not in str(refused.value)
    assert "--unsafe" in str(refused.value)


@pytest.fixture
def renewed(pki, tmp_path):
    """Files in use as (cert, key, cacert), and a function that replaces them by others of the PKI."""
    places = {name: tmp_path / name for name in ("tls.crt", "tls.key", "ca.crt")}

    def put(**files):
        for place, source in files.items():
            # Renamed into place, as a kubelet does, so no file is ever partial.
            new = tmp_path / "new"
            shutil.copy(pki / source, new)
            new.replace(places[place.replace("_", ".")])

    put(tls_crt="server.crt", tls_key="server.key", ca_crt="ca.crt")
    return [str(place) for place in places.values()], put


@pytest.fixture
async def renewable(renewed, listening):
    return await listening(tls.Files(*renewed[0])), renewed[1]


async def test_new_client_ca_applies_to_the_next_connection(renewable, pki):
    """Both ways: the newly trusted client is accepted, the formerly trusted one rejected."""
    port, put = renewable
    assert (await ask(port, client(pki, "client")))[0] == 200
    put(ca_crt="other-ca.crt")
    assert (await ask(port, client(pki, "stranger")))[0] == 200
    with pytest.raises((aiohttp.ClientError, ssl.SSLError, ConnectionError)):
        await ask(port, client(pki, "client"))


async def shown(port, pki):
    """The name in the certificate that a new connection gets."""
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client(pki, "client"))
    subject = writer.get_extra_info("ssl_object").getpeercert()["subject"]
    writer.close()
    await writer.wait_closed()
    return subject[0][0][1]


async def test_new_connection_gets_the_renewed_certificate(renewable, pki):
    port, put = renewable
    assert await shown(port, pki) == "server"
    put(tls_crt="client.crt", tls_key="client.key")  # any other pair of the same CA
    assert await shown(port, pki) == "client"


async def test_unusable_files_keep_the_loaded_ones(renewable, pki, log_lines):
    """For example a certificate before its key; the pair is loaded once it matches."""
    port, put = renewable
    lines = log_lines("logfmt")
    put(tls_crt="client.crt")
    assert await shown(port, pki) == "server"
    assert await shown(port, pki) == "server"
    said = [line for line in lines() if "certificates not reloaded" in line]
    assert len(said) == 1
    put(tls_key="client.key")
    assert await shown(port, pki) == "client"


def end_of(path):
    """When a certificate expires (Unix seconds), as OpenSSL prints it."""
    command = ["openssl", "x509", "-enddate", "-noout", "-in", str(path)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return float(ssl.cert_time_to_seconds(printed.strip().removeprefix("notAfter=")))


def test_ends_of_certificates_in_use_are_metrics(pki, renewed, tmp_path):
    paths, put = renewed
    metrics = Metrics()

    def end(use):
        labels = {"port": "extender", "use": use}
        return metrics.registry.get_sample_value("plimsoll_certificate_not_after_seconds", labels)

    rotation = tls.rotation(tls.Files(*paths), on_load=metrics.expires("extender"))
    assert (end("server"), end("ca")) == (end_of(pki / "server.crt"), end_of(pki / "ca.crt"))
    short = tmp_path / "short"
    short.mkdir()
    key = ("-newkey", "rsa:2048", "-nodes", "-keyout", str(short / "key"))
    openssl("req", "-x509", "-days", "3", "-subj", "/CN=short", *key, "-out", str(short / "crt"))
    both = (pki / "ca.crt").read_text() + (short / "crt").read_text()
    (short / "both").write_text(both)
    put(tls_crt=short / "crt", tls_key=short / "key", ca_crt=short / "both")
    rotation.current()
    assert end("server") == end_of(short / "crt")
    assert end("ca") == max(end_of(pki / "ca.crt"), end_of(short / "crt"))
    put(tls_crt="garbage")
    rotation.current()
    assert end("server") == end_of(short / "crt")
