"""A web config on a real server while its files change."""

import asyncio
import base64
import ssl
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path

import bcrypt
import pytest
import structlog

from agent.web.config import WebConfigError
from agent.web.guard import WebGuard
from plimsoll.http.limits import Limits
from plimsoll.http.types import Request, Response

SALT = bcrypt.gensalt(4)


def hashed(password: str) -> str:
    return bcrypt.hashpw(password.encode(), SALT).decode()


def basic(user: str, password: str) -> str:
    return "Authorization: Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


async def hello(_: Request) -> Response:
    return Response(HTTPStatus.OK, b"hello\n", headers=(("vary", "Accept"),))


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write the web config atomically."""

    def replace(text: str) -> Path:
        path, draft = tmp_path / "web.yml", tmp_path / "draft"
        draft.write_text(text)
        draft.rename(path)
        return path

    return replace


@pytest.fixture
def site(serve, write) -> Callable[..., object]:
    async def start(text: str, limits: Limits | None = None, **options):
        saver = WebGuard(write(text), **options)
        guarded = saver.guard(hello, open_paths={"/healthz"})
        return await serve(guarded, limits, tls=saver.tls)

    return start


def pair(cert: Path, key: Path) -> str:
    return f"tls_server_config: {{cert_file: {cert}, key_file: {key}}}\n"


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (basic("alice", "secret"), 200),
        (basic("alice", "wrong"), 401),
        (basic("bob", "secret"), 401),
        (basic("alice", ""), 401),
        (basic("", "secret"), 401),
        (basic("alice", "s" * 100), 401),
        (basic("alice", "secret\0"), 401),
        ("Authorization: Basic YWxpY2U=", 401),
        ("Authorization: Basic !", 401),
        ("Authorization: Bearer secret", 401),
        ("X-Nothing: here", 401),
    ],
)
async def test_valid_password_is_accepted(site, header: str, status: int) -> None:
    client = await (await site(f"basic_auth_users: {{alice: {hashed('secret')}}}")).connect()
    for _ in range(2):  # once by bcrypt, once from the cache
        reply = await client.get("/metrics", header)
        assert reply.status == status
        assert reply.headers.get("www-authenticate") == (None if status == 200 else "Basic")


async def test_bcrypt_checks_72_bytes_as_the_exporters_do(site) -> None:
    client = await (await site(f"basic_auth_users: {{alice: {hashed('x' * 72)}}}")).connect()
    assert (await client.get("/", basic("alice", "x" * 80))).status == 200


async def test_unknown_user_with_a_known_password_is_rejected(site) -> None:
    client = await (await site(f"basic_auth_users: {{alice: {hashed('secret')}}}")).connect()
    assert (await client.get("/", basic("mallory", "secret"))).status == 401
    assert (await client.get("/", basic("alice", "secret"))).status == 200
    assert (await client.get("/", basic("mallory", "secret"))).status == 401


async def test_guessing_delays_no_authenticated_user(site) -> None:
    slow = bcrypt.hashpw(b"secret", bcrypt.gensalt(11)).decode()
    place = await site(f"basic_auth_users: {{alice: {slow}}}")
    client = await place.connect()
    assert (await client.get("/", basic("alice", "secret"))).status == 200
    guesses = [await place.connect() for _ in range(30)]
    for number, guess in enumerate(guesses):
        header = basic("alice", str(number))
        await guess.say(f"GET / HTTP/1.1\r\nHost: x\r\n{header}\r\n\r\n".encode())
    first = asyncio.create_task(guesses[-1].reply())
    for _ in range(20):
        assert (await client.get("/", basic("alice", "secret"))).status == 200
    assert not first.done(), "the guesses are still being checked one by one"
    first.cancel()


async def test_guessing_clients_do_not_block_a_probe(site) -> None:
    """The kubelet opens a connection per probe and restarts an agent that does not answer."""
    slow = bcrypt.hashpw(b"secret", bcrypt.gensalt(12)).decode()
    place = await site(f"basic_auth_users: {{alice: {slow}}}", Limits(connections=36))
    guesses = [await place.connect() for _ in range(36)]
    for number, guess in enumerate(guesses):
        header = basic("alice", str(number))
        await guess.say(f"GET / HTTP/1.1\r\nHost: x\r\n{header}\r\n\r\n".encode())
    assert (await (await place.connect()).get("/healthz")).status == 200
    replies = [asyncio.create_task(guess.reply()) for guess in guesses]
    for reply in asyncio.as_completed(replies):
        if (told := await reply).status == 429:
            break
    assert (told.status, told.headers["retry-after"]) == (429, "1")
    for unread in replies:
        unread.cancel()
    await asyncio.gather(*replies, return_exceptions=True)


async def test_healthz_needs_no_password(site) -> None:
    client = await (await site(f"basic_auth_users: {{alice: {hashed('secret')}}}")).connect()
    assert (await client.get("/healthz")).status == 200
    assert (await client.get("/healthz/")).status == 401


async def test_headers_are_sent_with_every_response(site) -> None:
    text = "http_server_config: {headers: {X-Frame-Options: deny}}\n"
    client = await (await site(text + f"basic_auth_users: {{a: {hashed('b')}}}")).connect()
    for reply in (await client.get("/"), await client.get("/", basic("a", "b"))):
        assert reply.headers["x-frame-options"] == "deny"
    assert reply.headers["vary"] == "Accept"


async def test_requests_may_be_limited(site) -> None:
    now = [100.0]
    place = await site("rate_limit: {interval: 10s, burst: 2}", clock=lambda: now[0])
    client = await place.connect()
    found = [(await client.get("/")).status for _ in range(3)]
    assert found == [200, 200, 429]
    assert (await client.get("/healthz")).status == 200
    now[0] += 10
    assert [(await client.get("/")).status for _ in range(2)] == [200, 429]


async def test_users_change_on_open_connections(site, write) -> None:
    client = await (await site(f"basic_auth_users: {{alice: {hashed('old')}}}")).connect()
    assert (await client.get("/", basic("alice", "old"))).status == 200
    write(f"basic_auth_users: {{alice: {hashed('new')}}}")
    assert (await client.get("/", basic("alice", "old"))).status == 401
    assert (await client.get("/", basic("alice", "new"))).status == 200


async def test_certificates_change_during_open_connections(
    site, write, tmp_path, authority, untrusted, server_pair
) -> None:
    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    for path, source in zip((cert, key), server_pair, strict=True):
        path.write_bytes(source.read_bytes())
    place = await site(pair(Path("tls.crt"), Path("tls.key")))
    standing = await place.connect(authority.client())
    assert (await standing.get("/")).status == 200
    # Sequential, as requests arrive; in between they are inconsistent.
    for path, source in zip((cert, key), untrusted.issue("server"), strict=True):
        path.write_bytes(source.read_bytes())
        assert (await standing.get("/")).status == 200
    assert (await (await place.connect(untrusted.client())).get("/")).status == 200
    with pytest.raises(ssl.SSLCertVerificationError):
        await place.connect(authority.client())


async def test_tls_may_be_enabled_without_a_restart(site, write, authority, server_pair) -> None:
    place = await site("")
    plain = await place.connect()
    assert (await plain.get("/")).status == 200
    write(pair(*server_pair))
    assert (await (await place.connect(authority.client())).get("/")).status == 200
    assert (await plain.get("/")).status == 200


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the new file has no TLS; restart the agent to allow this"),
        ("basic_auth_users: {", "not YAML"),
        ("tls_server_config: {cert_file: nowhere.crt, key_file: x}", "nowhere.crt: No such file"),
        ("TLS", "the new file has no users"),
        ("TLS+USERS", "the new file does not require client certificates"),
        (None, "No such file or directory"),
    ],
)
async def test_invalid_or_weaker_file_changes_nothing_except_the_log(
    site, write, authority, server_pair, text: str | None, reason: str
) -> None:
    users = f"basic_auth_users: {{alice: {hashed('secret')}}}\n"
    cert, key = server_pair
    mutual = (
        f"tls_server_config: {{cert_file: {cert}, key_file: {key},"
        f" client_auth_type: RequireAndVerifyClientCert, client_ca_file: {authority.file}}}\n"
    )
    client = authority.client(*authority.issue("prometheus"))
    place = await site(mutual + users)
    with structlog.testing.capture_logs() as lines:
        path = write({"TLS": mutual, "TLS+USERS": pair(cert, key) + users}.get(text, text or ""))
        if text is None:
            path.unlink()
        for _ in range(3):
            connection = await place.connect(client)
            assert (await connection.get("/", basic("alice", "secret"))).status == 200
            assert (await connection.get("/")).status == 401
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            await (await place.connect(authority.client())).get("/healthz")
        errors = [line for line in lines if line["log_level"] == "error"]
        assert len(errors) == 1
        assert reason in errors[0]["reason"]
        write(mutual + f"basic_auth_users: {{bob: {hashed('other')}}}")
        assert (await connection.get("/", basic("bob", "other"))).status == 200


async def test_second_change_within_a_clock_tick_is_seen(write, serve) -> None:
    """Two files with equal stat, down to the modification time; only their age tells that they may differ."""
    path = write(f"basic_auth_users: {{alice: {hashed('one')}}}")
    young = path.stat().st_ctime_ns / 1e9
    saver = WebGuard(path, now=lambda: young)
    assert not saver._settled
    later = WebGuard(path, now=lambda: young + 1)
    assert later._settled


def test_invalid_file_at_startup_is_a_sentence_with_its_name(write, tmp_path) -> None:
    with pytest.raises(WebConfigError, match=r"web\.yml: unknown field tls$"):
        WebGuard(write("tls: {}"))
    with pytest.raises(WebConfigError, match=r"nowhere\.yml: No such file or directory$"):
        WebGuard(tmp_path / "nowhere.yml")
    (tmp_path / "binary.yml").write_bytes(b"\xff\xfe")
    with pytest.raises(WebConfigError, match=r"binary\.yml: not UTF-8$"):
        WebGuard(tmp_path / "binary.yml")
    (tmp_path / "folder.yml").mkdir()
    with pytest.raises(WebConfigError, match=r"folder\.yml: Is a directory$"):
        WebGuard(tmp_path / "folder.yml")
