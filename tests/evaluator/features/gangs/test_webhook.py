"""The webhook on a real port: accepted clients, responses, and limits."""

import base64
import contextlib
import json
import shutil
import ssl
import warnings

import aiohttp
import pytest

from evaluator.config import Settings
from evaluator.core.metrics import Metrics
from evaluator.core.options import CoreOptions
from evaluator.core.tls import TlsError
from evaluator.features.gangs import webhook
from evaluator.features.gangs.core.membership import GATE
from evaluator.features.gangs.metrics import GangMetrics
from evaluator.features.gangs.options import GangOptions
from plimsoll.http.addresses import Address
from plimsoll.http.limits import Limits

pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not on PATH")

PATH = "/gangs/gate"
REFUSED = (aiohttp.ClientError, ssl.SSLError, ConnectionError)


def review(**labels):
    pod = {"metadata": {"name": "train-0", "labels": labels}, "spec": {"containers": []}}
    request = {
        "uid": "0a1b",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "ml",
        "operation": "CREATE",
        "object": pod,
    }
    told = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return json.dumps(told).encode()


def review_of(filling):
    """A review of a pod with these spec fields."""
    return GANG.replace(b'"containers": []', filling.encode())


def posted(body):
    return f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


GANG = review(podGroup="train", minAvailable="4")


@pytest.fixture(scope="module")
def pair(authority):
    return [str(path) for path in authority.issue("webhook")]


class Port:
    def __init__(self, number, metrics):
        self.number = number
        self._metrics = metrics

    async def ask(self, context, body=GANG, path=PATH, method="POST"):
        """(status, JSON) of a request."""
        url = f"https://127.0.0.1:{self.number}{path}"
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, url, data=body, ssl=context) as response,
        ):
            return response.status, json.loads(await response.read())

    def counted(self, result):
        name = "plimsoll_gang_admissions_total"
        return self._metrics.registry.get_sample_value(name, {"result": result}) or 0


@pytest.fixture
async def start(pair):
    """Start the port with these flags."""
    async with contextlib.AsyncExitStack() as stack:

        async def started(cert=pair[0], key=pair[1], **flags):
            metrics = Metrics()
            told = Settings(cert=str(cert), key=str(key), gang_webhook_port=9443, **flags)
            server = webhook.server(
                told.options_of(CoreOptions),
                told.options_of(GangOptions),
                metrics,
                GangMetrics(metrics.registry),
            )
            (address,) = await server.listen([Address("127.0.0.1", 0)])
            stack.push_async_callback(server.close)
            return Port(address.port, metrics)

        yield started


@pytest.fixture
async def port(start):
    return await start()


def is_gated(reply):
    status, body = reply
    assert status == 200
    patch = json.loads(base64.b64decode(body["response"]["patch"]))
    assert patch == [{"op": "add", "path": "/spec/schedulingGates", "value": [{"name": GATE}]}]


class TestAccess:
    async def test_api_server_without_a_certificate_is_accepted(self, port, authority):
        """API servers show no certificate by default; other clients learn nothing but what follows from the review."""
        is_gated(await port.ask(authority.client()))

    async def test_only_api_servers_of_the_ca_are_accepted(self, start, authority, untrusted):
        port = await start(gang_webhook_cacert=str(untrusted.file))
        admitted = authority.client(*untrusted.issue("kube-apiserver"))
        for context in (authority.client(), authority.client(*authority.issue("other"))):
            with pytest.raises(REFUSED):
                await port.ask(context)
        is_gated(await port.ask(admitted))

    async def test_plain_http_is_rejected(self, port, dial):
        peer = await dial(port.number)
        await peer.say(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n" % PATH.encode())
        assert (await peer.rest()).startswith(b"HTTP/1.0 400 Bad Request\r\n")

    async def test_tls_before_1_2_is_rejected(self, port, authority, dial):
        context = authority.client()
        context.set_ciphers("ALL:@SECLEVEL=0")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            context.minimum_version = ssl.TLSVersion.TLSv1
            context.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises(REFUSED):
            await dial(port.number, context)

    async def test_held_connections_do_not_block_an_api_server(self, port, authority, dial):
        idle = [await dial(port.number, authority.client()) for _ in range(80)]
        is_gated(await port.ask(authority.client()))
        assert len(idle) > webhook.limits(Settings().limits).connections


class TestCertificates:
    async def test_new_connection_gets_the_renewed_certificate(
        self, start, authority, pair, tmp_path
    ):
        for name, source in zip(("tls.crt", "tls.key"), pair, strict=True):
            shutil.copy(source, tmp_path / name)
        port = await start(cert=tmp_path / "tls.crt", key=tmp_path / "tls.key")
        is_gated(await port.ask(authority.client()))
        renewed = authority.issue("renewed", san="DNS:renewed")
        for name, source in zip(("tls.crt", "tls.key"), renewed, strict=True):
            shutil.copy(source, tmp_path / f"{name}.new")
            (tmp_path / f"{name}.new").replace(tmp_path / name)
        with pytest.raises(aiohttp.ClientConnectorCertificateError, match=r"127\.0\.0\.1"):
            await port.ask(authority.client())

    @pytest.mark.parametrize(
        ("flags", "named"),
        [
            ({"cert": "/none.crt"}, "--cert"),
            ({"gang_webhook_cacert": "/none"}, "--gangWebhookCacert"),
        ],
        ids=["certificate", "CA"],
    )
    async def test_unusable_certificate_is_reported_with_its_flag(self, start, flags, named):
        with pytest.raises(TlsError, match=f"^{named} ") as refused:
            await start(**flags)
        assert "--gangWebhookPort=0" in str(refused.value)
        assert "--unsafe" not in str(refused.value)

    async def test_unsafe_extender_does_not_disable_tls_of_the_webhook(self, start, authority):
        """API servers call webhooks over TLS only."""
        is_gated(await (await start(unsafe=True)).ask(authority.client()))


class TestResponses:
    async def test_pods_are_counted_by_result(self, port, authority):
        context = authority.client()
        await port.ask(context)
        await port.ask(context, review(app="web"))
        await port.ask(context, b"{}")
        results = ("gated", "left", "refused")
        assert [port.counted(result) for result in results] == [1, 1, 1]

    @pytest.mark.parametrize(
        ("asked", "status"),
        [
            ({"body": b"{}"}, 400),
            ({"body": b"nonsense"}, 400),
            ({"path": "/"}, 404),
            ({"path": "/scheduler/filter"}, 404),
            ({"method": "GET"}, 405),
        ],
        ids=lambda asked: str(asked)[:30],
    )
    async def test_rejection_is_a_status_as_of_the_api_server(self, port, authority, asked, status):
        found, body = await port.ask(authority.client(), **asked)
        assert found == body["code"] == status
        assert (body["kind"], body["status"]) == ("Status", "Failure")
        assert body["message"]

    async def test_oversized_body_is_rejected_before_it_is_sent(self, port, authority, dial):
        peer = await dial(port.number, authority.client())
        head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {9 << 20}\r\n\r\n"
        assert (await peer.ask(head.encode())).status == 413

    @pytest.mark.parametrize(
        ("filling", "said"),
        [
            ('"schedulingGates": [%s{}]' % ('{"name": "a"},' * 10_000), "scheduling gates"),
            ('"schedulingGates": [%s{}]' % ('{"name": "a"},' * 100_000), "brackets"),
            ('"containers": [%s{}]' % ("{}," * 100_000), "brackets"),
            ('"x": "%s"' % ("\\\\" * 200_000), "escapes"),
            ('"x": %s1' % (" " * 300_000), "blanks"),
        ],
        ids=["gates", "very many gates", "containers", "escapes", "blanks"],
    )
    async def test_review_of_too_many_values_is_rejected(
        self, port, authority, dial, filling, said
    ):
        peer = await dial(port.number, authority.client())
        reply = await peer.ask(posted(review_of(filling)))
        assert reply.status == 400
        assert said in json.loads(reply.body)["message"]

    async def test_largest_pod_of_the_api_server_is_answered(self, port, authority, dial):
        large = json.loads(GANG)
        large["request"]["object"]["metadata"]["annotations"] = {"note": "x" * (3 << 20)}
        peer = await dial(port.number, authority.client())
        reply = await peer.ask(posted(json.dumps(large).encode()))
        is_gated((reply.status, json.loads(reply.body)))

    async def test_other_path_is_rejected_before_the_body(self, port, authority, dial):
        peer = await dial(port.number, authority.client())
        head = b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 2000\r\n\r\n"
        assert (await peer.ask(head)).status == 404

    async def test_timeout_parameter_of_the_api_server_is_accepted(self, port, authority):
        is_gated(await port.ask(authority.client(), path=f"{PATH}?timeout=5s"))


def test_webhook_port_is_off_by_default():
    metrics = Metrics()
    own_metrics = GangMetrics(metrics.registry)
    assert webhook.server(CoreOptions(), GangOptions(), metrics, own_metrics) is None


def test_timeouts_come_from_the_flags_and_sizes_fit_pods():
    told = webhook.limits(Limits(header=1.5, body=2.5))
    assert (told.header, told.body) == (1.5, 2.5)
    assert 3 << 20 < told.body_bytes < told.bodies_bytes < Limits().body_bytes
