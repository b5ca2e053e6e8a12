"""The extender's port over TLS: accepted certificates, renewal, and rejections."""

import asyncio
import contextlib
import json
import shutil
import socket
import ssl
import warnings

import pytest

from evaluator.core import tls
from tests.patience import PATIENCE

pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not on PATH")

QUESTION = json.dumps({"Pod": {"metadata": {"name": "web"}}, "NodeNames": ["a"]}).encode()
ASKED = (
    b"POST /scheduler/filter HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(QUESTION)
) + QUESTION
REFUSED = (ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)


def is_answered(reply):
    assert reply.status == 200
    assert json.loads(reply.body)["NodeNames"] == ["a"]


@pytest.fixture(scope="module")
def scheduler(authority):
    """The TLS context of kube-scheduler."""
    return authority.client(*authority.issue("system:kube-scheduler"))


@pytest.fixture
async def port(extender, secured):
    return (await extender(tls=secured)).port


async def is_kept_out(dial, port, context):
    """With TLS 1.3 a client learns only on reading that its certificate was rejected."""
    with pytest.raises(REFUSED):
        await (await dial(port, context)).ask(ASKED)


class TestAccess:
    async def test_client_certificate_of_the_ca_is_accepted(self, port, dial, scheduler):
        peer = await dial(port, scheduler)
        for _ in range(2):
            is_answered(await peer.ask(ASKED))

    @pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
    async def test_tls_1_2_and_newer_are_accepted(self, port, dial, authority, version):
        context = authority.client(*authority.issue("system:kube-scheduler"))
        context.minimum_version = context.maximum_version = version
        is_answered(await (await dial(port, context)).ask(ASKED))

    async def test_tls_before_1_2_is_rejected(self, port, dial, authority):
        context = authority.client(*authority.issue("system:kube-scheduler"))
        context.set_ciphers("ALL:@SECLEVEL=0")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            context.minimum_version = ssl.TLSVersion.TLSv1
            context.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises(REFUSED):
            await dial(port, context)

    @pytest.mark.parametrize(
        "who",
        [
            "nobody",
            "a stranger",
            "a stranger whose CA has our CA's name",
            "an expired one",
            "a server",
            "one of its own making",
            "one whom a client vouches for",
        ],
    )
    async def test_other_clients_are_rejected_and_open_connections_are_undisturbed(
        self, port, dial, authority, untrusted, scheduler, tmp_path, who
    ):
        peer = await dial(port, scheduler)
        is_answered(await peer.ask(ASKED))
        pair = {
            "nobody": lambda: (),
            "a stranger": lambda: untrusted.issue("system:kube-scheduler"),
            "a stranger whose CA has our CA's name": lambda: type(authority)(tmp_path).issue("x"),
            "an expired one": lambda: authority.issue("expired", days=-1),
            "a server": lambda: authority.issue("serving", usage="serverAuth"),
            "one of its own making": lambda: (
                type(untrusted)(tmp_path, "self").file,
                tmp_path / "self.key",
            ),
            "one whom a client vouches for": lambda: vouched_for(authority, tmp_path),
        }[who]()
        await is_kept_out(dial, port, authority.client(*pair))
        is_answered(await peer.ask(ASKED))
        is_answered(await (await dial(port, scheduler)).ask(ASKED))

    async def test_plain_http_gets_a_hint_to_use_https(self, port, dial, scheduler):
        said = await plainly(await dial(port))
        assert said.startswith(b"HTTP/1.0 400 Bad Request\r\n")
        assert said.endswith(b"use https://\n")
        is_answered(await (await dial(port, scheduler)).ask(ASKED))

    async def test_failed_handshake_is_not_logged_as_an_error(
        self, port, dial, authority, log_lines, until
    ):
        """Port scanners cause no traceback and no asyncio warning."""
        lines = log_lines("logfmt")
        await plainly(await dial(port))
        await is_kept_out(dial, port, authority.client())
        (await dial(port)).vanish()
        assert not [line for line in lines() if "level=error" in line or "Traceback" in line]


async def plainly(peer):
    await peer.say(ASKED)
    return await peer.rest()


def vouched_for(authority, folder):
    """A certificate signed by a client certificate of the CA, sent with its chain: only a CA may sign."""
    forger = type(authority)(folder, "forger")
    cert, key = authority.issue("forger")
    shutil.copy(cert, folder / "forger.crt")
    shutil.copy(key, folder / "forger.key")
    forged, forged_key = forger.issue("system:kube-scheduler")
    chain = folder / "chain.crt"
    chain.write_bytes(forged.read_bytes() + cert.read_bytes())
    return chain, forged_key


class TestProtocols:
    """RFC 7301: the server speaks HTTP/1.1."""

    async def test_http_1_1_is_chosen_of_several_protocols(self, port, dial, authority):
        context = authority.client(*authority.issue("system:kube-scheduler"))
        context.set_alpn_protocols(["h2", "http/1.1"])
        peer = await dial(port, context)
        chosen = peer.writer.get_extra_info("ssl_object").selected_alpn_protocol()
        assert chosen == "http/1.1"
        is_answered(await peer.ask(ASKED))

    async def test_client_of_http_2_alone_gets_no_alpn_protocol(self, port, dial, authority):
        context = authority.client(*authority.issue("system:kube-scheduler"))
        context.set_alpn_protocols(["h2"])
        with contextlib.suppress(ssl.SSLError):
            peer = await dial(port, context)
            assert peer.writer.get_extra_info("ssl_object").selected_alpn_protocol() is None


class TestNames:
    """--clientNames limits the accepted client certificates."""

    @pytest.fixture
    async def start(self, extender, authority):
        async def begin(*names):
            cert, key = authority.issue("extender")
            files = tls.Files(str(cert), str(key), str(authority.file))
            rotation = tls.rotation(files, names=names)
            return await extender(tls=rotation.current, linger=0.1)

        return begin

    @pytest.mark.parametrize(
        ("name", "san"),
        [
            ("system:kube-scheduler", "IP:127.0.0.1"),
            ("x", "DNS:kube-scheduler"),
            ("x", "DNS:y,DNS:kube-scheduler"),
        ],
    )
    async def test_allowed_name_is_accepted(self, start, dial, authority, name, san):
        server = await start("system:kube-scheduler", "kube-scheduler")
        context = authority.client(*authority.issue(name, san=san))
        is_answered(await (await dial(server.port, context)).ask(ASKED))

    @pytest.mark.parametrize(
        ("name", "san"),
        [
            ("system:kube-controller-manager", "IP:127.0.0.1"),
            ("system:kube-scheduler2", "DNS:not-kube-scheduler"),
            ("SYSTEM:KUBE-SCHEDULER", "DNS:KUBE-SCHEDULER"),
            ("x", "DNS:*.kube-scheduler"),
            ("x", "URI:kube-scheduler"),
            ("x", "email:kube-scheduler"),
            ("system:kube-scheduler,x", "IP:127.0.0.1"),
            ("*", "DNS:*"),
        ],
    )
    async def test_other_name_is_rejected_in_json(
        self, start, dial, authority, name, san, log_lines
    ):
        lines = log_lines("logfmt")
        server = await start("system:kube-scheduler", "kube-scheduler")
        context = authority.client(*authority.issue(name, san=san))
        peer = await dial(server.port, context)
        await peer.say(ASKED * 2)
        (reply,) = await peer.replies()
        assert reply.status == 403
        assert "--clientNames" in json.loads(reply.body)["Error"]
        assert reply.headers["connection"] == "close"
        assert server.counted("filter", 403, "refused") == 1
        assert server.counted("filter", 200, "no_policy_label") is None
        assert [line for line in lines() if "--clientNames" in line]

    async def test_client_name_cannot_forge_log_lines(self, start, dial, authority, log_lines):
        lines = log_lines("logfmt")
        server = await start("system:kube-scheduler")
        cert, key = authority.issue("a\r\nX-Name: b\nlevel=error msg=forged \u202e\u2028")
        cert, key = cert.rename(cert.parent / "odd.crt"), key.rename(key.parent / "odd.key")
        peer = await dial(server.port, authority.client(cert, key))
        (reply,) = await say_and_take(peer)
        assert reply.status == 403
        assert not [line for line in lines() if line.startswith(("level=error", "X-Name"))]

    async def test_body_of_a_rejected_client_is_not_requested(self, start, dial, authority):
        server = await start("system:kube-scheduler")
        peer = await dial(server.port, authority.client(*authority.issue("x")))
        start_ = b"POST /scheduler/filter HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
        assert (await peer.ask(start_ + b"Content-Length: 100000000\r\n\r\n")).status == 403


async def say_and_take(peer):
    await peer.say(ASKED)
    return await peer.replies()


class TestRenewal:
    """Certificate files that change while the server runs."""

    @pytest.fixture
    def put(self, tmp_path):
        """Replace the server's certificate files atomically, as a kubelet does."""

        def rename(**sources):
            for place, source in sources.items():
                new = tmp_path / "new"
                shutil.copy(source, new)
                new.replace(tmp_path / place)

        return rename

    @pytest.fixture
    async def server(self, extender, authority, put, tmp_path):
        put(crt=authority.issue("before")[0], key=authority.folder / "before.key")
        put(ca=authority.file)
        files = tls.Files(*(str(tmp_path / name) for name in ("crt", "key", "ca")))
        told = []
        rotation = tls.rotation(files, on_change=told.append)
        found = await extender(tls=rotation.current)
        found.told = told
        return found

    async def test_old_connections_continue_and_new_ones_get_the_new_certificate(
        self, server, dial, authority, scheduler, put
    ):
        old = await dial(server.port, scheduler)
        is_answered(await old.ask(ASKED))
        cert, key = authority.issue("after")
        put(crt=cert, key=key)
        new = await dial(server.port, scheduler)
        assert (shown(old), shown(new)) == ("before", "after")
        for peer in (old, new, old):
            is_answered(await peer.ask(ASKED))
        assert server.told == [True]

    async def test_request_sent_during_a_renewal_is_answered(
        self, server, dial, authority, scheduler, put
    ):
        old = await dial(server.port, scheduler)
        await old.say(ASKED[:-10])
        cert, key = authority.issue("after")
        put(crt=cert, key=key)
        assert shown(await dial(server.port, scheduler)) == "after"
        is_answered(await old.ask(ASKED[-10:]))

    async def test_half_a_renewal_is_not_loaded_and_logged(
        self, server, dial, authority, scheduler, put, log_lines
    ):
        lines = log_lines("logfmt")
        cert, key = authority.issue("after")
        put(crt=cert)
        assert shown(await dial(server.port, scheduler)) == "before"
        assert shown(await dial(server.port, scheduler)) == "before"
        assert server.told == [False]
        (said,) = [line for line in lines() if "certificates not reloaded" in line]
        assert "PRIVATE" not in said
        put(key=key)
        assert shown(await dial(server.port, scheduler)) == "after"
        assert server.told == [False, True]

    @pytest.mark.parametrize("place", ["crt", "key", "ca"])
    async def test_missing_or_corrupt_file_keeps_the_loaded_certificate(
        self, server, dial, scheduler, put, tmp_path, place
    ):
        kept = (tmp_path / place).read_bytes()
        (tmp_path / place).unlink()
        assert shown(await dial(server.port, scheduler)) == "before"
        (tmp_path / "garbage").write_text("-----BEGIN NOTHING-----\n")
        put(**{place: tmp_path / "garbage"})
        is_answered(await (await dial(server.port, scheduler)).ask(ASKED))
        (tmp_path / "empty").write_text("")
        put(**{place: tmp_path / "empty"})
        is_answered(await (await dial(server.port, scheduler)).ask(ASKED))
        assert server.told == [False, False, False]
        (tmp_path / "kept").write_bytes(kept)
        put(**{place: tmp_path / "kept"})
        is_answered(await (await dial(server.port, scheduler)).ask(ASKED))
        assert server.told == [False, False, False, True]

    async def test_session_does_not_outlive_its_ca(
        self, server, authority, untrusted, scheduler, put
    ):
        """Otherwise a client would stay trusted for the lifetime of its session ticket."""
        session = await asyncio.to_thread(resume, server.port, scheduler, None)
        again = await asyncio.to_thread(resume, server.port, scheduler, session)
        assert again is not None
        put(ca=untrusted.file)
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.to_thread(resume, server.port, scheduler, session)

    async def test_certificates_of_other_names_are_loaded_too(
        self, server, dial, authority, scheduler, put
    ):
        """With and without a server name (SNI)."""
        cert, key = authority.issue("after")
        put(crt=cert, key=key)
        context = authority.client(*authority.issue("system:kube-scheduler"))
        context.check_hostname = False
        assert await asyncio.to_thread(resume, server.port, context, None, name=None)
        assert shown(await dial(server.port, scheduler)) == "after"


def shown(peer):
    """Return the name in the server's certificate."""
    return peer.writer.get_extra_info("ssl_object").getpeercert()["subject"][0][0][1]


def resume(port, context, session, name="127.0.0.1"):
    """Send one request, resuming a TLS session if given; return the new session."""
    with (
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as plain,
        context.wrap_socket(plain, server_hostname=name, session=session) as secure,
    ):
        secure.sendall(ASKED)
        if not secure.recv(65536).startswith(b"HTTP/1.1 200"):
            raise ConnectionResetError
        return secure.session
