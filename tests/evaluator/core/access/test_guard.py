"""A port with delegated access over real TLS: who is admitted, and what others are told."""

import asyncio
import json
from functools import partial
from http import HTTPStatus
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from evaluator.core import tls
from evaluator.core.access.authenticators import ConfigMap
from evaluator.core.access.guard import DelegatedAccess
from evaluator.core.access.user import NonResourceAttributes
from evaluator.core.kube.transport import KubeError
from evaluator.core.metrics import Metrics
from evaluator.core.model.api_status import AccessReview, ReviewedUser, TokenReview
from evaluator.core.signals import FrontProxyChanged, Signals, wakes
from plimsoll.http.types import Response, plain_rejection

USER = ("X-Remote-User: jane", "X-Remote-Group: readers", "X-Remote-Group: system:authenticated")
TOKEN = "Authorization: Bearer joe"


def config_map(authority, names=("front-proxy",)):
    return ConfigMap(
        {
            "requestheader-client-ca-file": authority.file.read_text(),
            "requestheader-allowed-names": json.dumps(list(names)),
            "requestheader-username-headers": '["X-Remote-User"]',
            "requestheader-group-headers": '["X-Remote-Group"]',
            "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
        }
    )


class Authority:
    """An API server that knows the token of `joe`, and permits the members of `readers`, and joe, everything."""

    def __init__(self):
        self.reviews = []
        self.error = None

    async def review_token(self, token, audience=""):
        if self.error:
            raise self.error
        if token != "joe":
            return TokenReview(error="unknown")
        return TokenReview(True, ReviewedUser("joe", {"k": ["v"]}, "1", ["g"]))

    async def review_access(self, spec):
        self.reviews.append(spec)
        if self.error:
            raise self.error
        return AccessReview(allowed=spec["user"] == "joe" or "readers" in spec.get("groups", ()))


async def handler(request):
    return Response(HTTPStatus.OK, b"secret")


def attributes_of(request):
    return None if request.path == "/apis" else NonResourceAttributes(path=request.path)


@pytest.fixture
async def site(serve, authority):
    """A protected server, its API server, and a way to make requests: `get(path, *headers, client=certificate)`."""
    api, metrics = Authority(), Metrics()
    signals = Signals()
    access = DelegatedAccess(api, metrics, signals.publish)
    access.front_proxy.put(config_map(authority))
    cert, key = authority.issue("server")
    rotation = tls.rotation(
        tls.Files(str(cert), str(key), None), client_ca=access.front_proxy.client_ca
    )
    guarded = access.guard("test", front_proxy=True).protect(
        handler, attributes_of, plain_rejection
    )
    listening = await serve(guarded, tls=rotation.current)
    signals.connect(wakes(listening.server.drain, FrontProxyChanged))

    async def get(path, *headers, client=()):
        connection = await listening.connect(authority.client(*client))
        reply = await connection.get(path, *headers)
        connection.writer.transport.abort()
        return reply.status, reply.body.decode()

    count = partial(metrics.registry.get_sample_value, "plimsoll_access_decisions_total")
    return SimpleNamespace(
        get=get, api=api, connect=listening.connect, front_proxy=access.front_proxy, count=count
    )


@pytest.fixture(scope="module")
def proxy(authority):
    return authority.issue("front-proxy")


async def test_front_proxys_user_is_authorized_with_all_groups(site, proxy):
    assert await site.get("/explain", *USER, client=proxy) == (200, "secret")
    (spec,) = site.api.reviews
    assert spec["user"] == "jane"
    assert spec["groups"] == ["readers", "system:authenticated"]
    assert spec["nonResourceAttributes"] == {"path": "/explain", "verb": "get"}


async def test_token_is_accepted_without_the_front_proxy(site):
    assert await site.get("/explain", TOKEN) == (200, "secret")
    (spec,) = site.api.reviews
    assert spec["groups"] == ["g", "system:authenticated"]
    assert (spec["uid"], spec["extra"]) == ("1", {"k": ["v"]})


@pytest.mark.parametrize("path", ["/explain", "/apis"])
async def test_forged_headers_without_the_certificate_are_unauthenticated(site, path):
    status, body = await site.get(path, *USER, "X-Remote-Group: system:masters")
    assert (status, site.api.reviews) == (401, [])
    assert "front proxy's client certificate" in body


async def test_flood_of_unauthenticated_requests_writes_few_lines(site):
    with capture_logs() as lines:
        for _ in range(30):
            await site.get("/explain")
    warnings = [line["event"] for line in lines if line["log_level"] == "warning"]
    assert 0 < warnings.count("request refused") < 15


async def test_headers_beside_a_token_are_ignored(site):
    await site.get("/explain", TOKEN, *USER)
    assert site.api.reviews[0]["user"] == "joe"


async def test_other_certificate_of_the_ca_is_unauthenticated(site, authority):
    status, body = await site.get("/explain", *USER, client=authority.issue("kubelet"))
    assert status == 401
    assert "'kubelet', which requestheader-allowed-names does not list" in body
    assert site.api.reviews == []


@pytest.mark.parametrize(
    "headers",
    [
        (),
        ("Authorization: Basic am9lOmpvZQ==",),
        ("Authorization: Bearer",),
        ("Authorization: Bearer unknown",),
    ],
)
async def test_request_without_valid_credentials_is_unauthenticated(site, headers):
    assert (await site.get("/explain", *headers))[0] == 401
    assert (await site.get("/apis", *headers))[0] == 401
    assert site.count({"port": "test", "result": "unauthenticated"}) == 2


async def test_anonymous_user_behind_the_front_proxy_is_unauthenticated(site, proxy):
    anonymous = ("X-Remote-User: system:anonymous", "X-Remote-Group: system:unauthenticated")
    assert (await site.get("/apis", *anonymous, client=proxy))[0] == 401


async def test_user_without_permission_is_forbidden_in_the_api_servers_words(site, proxy):
    status, body = await site.get("/explain", "X-Remote-User: tenant", client=proxy)
    assert status == 403
    assert body == 'forbidden: User "tenant" cannot get path "/explain"\n'
    assert site.count({"port": "test", "result": "forbidden"}) == 1


async def test_members_of_system_masters_may_do_everything_unasked(site, proxy):
    headers = ("X-Remote-User: system:kube-aggregator", "X-Remote-Group: system:masters")
    assert (await site.get("/explain", *headers, client=proxy))[0] == 200
    assert site.api.reviews == []


async def test_api_server_outage_closes_all_but_discovery_and_health(site, proxy):
    site.api.error = KubeError(0, "connection refused")
    status, body = await site.get("/explain", *USER, client=proxy)
    assert status == 503
    assert "permissions cannot be reviewed now: connection refused" in body
    assert (await site.get("/apis", *USER, client=proxy))[0] == 200
    assert (await site.get("/readyz"))[0] == 200
    assert (await site.get("/readyz/more"))[0] == 401
    assert site.count({"port": "test", "result": "unavailable"}) == 1


async def test_rotated_ca_ends_connections_of_the_old_one(site, authority, untrusted, proxy):
    old = await site.connect(authority.client(*proxy))
    assert (await old.get("/explain", *USER)).status == 200
    site.front_proxy.put(config_map(untrusted))
    assert await old.ended()
    client = authority.client(*untrusted.issue("front-proxy"))
    assert (await (await site.connect(client)).get("/explain", *USER)).status == 200
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError, OSError)):
        await site.get("/explain", *USER, client=proxy)


async def test_unusable_configuration_keeps_the_previous_one(site, proxy):
    for data in (
        {"requestheader-client-ca-file": "no certificate"},
        {"requestheader-client-ca-file": "x", "requestheader-allowed-names": "{"},
    ):
        site.front_proxy.put(ConfigMap(data))
        assert (await site.get("/explain", *USER, client=proxy))[0] == 200


async def test_deleted_configuration_leaves_tokens_only(site, authority, proxy):
    site.front_proxy.drop(ConfigMap())
    assert (await site.get("/explain", *USER, client=proxy))[0] == 401
    assert (await site.get("/explain", TOKEN))[0] == 200
