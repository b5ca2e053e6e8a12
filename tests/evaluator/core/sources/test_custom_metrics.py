"""The custom metrics API over a real socket: version discovery, requests, and each failure."""

import asyncio
import datetime

import pytest

from evaluator.core.sources.answer import SourceError
from evaluator.core.sources.custom_metrics import CustomMetrics

GROUP = "/apis/custom.metrics.k8s.io"
NOON = datetime.datetime(2026, 11, 20, 12, tzinfo=datetime.UTC)


def group(*versions):
    found = [{"groupVersion": f"custom.metrics.k8s.io/{v}", "version": v} for v in versions]
    return {"kind": "APIGroup", "name": "custom.metrics.k8s.io", "versions": found}


def values(**nodes):
    stamp = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return {
        "kind": "MetricValueList",
        "items": [
            {"describedObject": {"kind": "Node", "name": n}, "timestamp": stamp, "value": value}
            for n, value in nodes.items()
        ],
    }


@pytest.fixture
async def source(stub_server, connect):
    """A source over a stub API server that discovers its version again after each failure."""
    return CustomMetrics(await connect(stub_server.url), rediscover=0.0)


async def refused(source, metric="health_metric"):
    with pytest.raises(SourceError) as caught:
        await source.fetch(metric)
    return caught.value.reason, str(caught.value)


@pytest.mark.parametrize(
    ("served", "spoken"),
    [
        (("v1beta1", "v1beta2"), "v1beta2"),
        (("v1beta2", "v1beta1"), "v1beta2"),
        (("v1beta1",), "v1beta1"),
        (("v1", "v1beta1"), "v1beta1"),
    ],
)
async def test_version_is_discovered_once_and_the_metric_read_by_name(
    source, stub_server, answer, served, spoken
):
    stub_server.then(answer.says(200, group(*served)))
    stub_server.otherwise(answer.says(200, values(a="1500m")))
    assert (await source.fetch("health_metric")).readings["a"].value == 1.5
    await source.fetch("node/odd name")
    asked = [one.path for one in stub_server.asked]
    assert asked[:2] == [GROUP, f"{GROUP}/{spoken}/nodes/*/health_metric"]
    assert asked[2:] == [f"{GROUP}/{spoken}/nodes/*/node/odd name"]  # as the server decodes it


async def test_version_is_discovered_again_after_a_failure(source, stub_server, answer):
    stub_server.then(
        answer.says(200, group("v1beta1")),
        answer.refuses(404),
        answer.says(200, group("v1beta2")),
        answer.says(200, values(a="1")),
    )
    assert await refused(source) == ("http_404", "404: the API has no such metric")
    assert (await source.fetch("health_metric")).readings.keys() == {"a"}
    assert stub_server.asked[3].path == f"{GROUP}/v1beta2/nodes/*/health_metric"


async def test_missing_metrics_do_not_repeat_the_discovery(stub_server, connect, answer):
    source = CustomMetrics(await connect(stub_server.url), rediscover=3600.0)
    stub_server.then(answer.says(200, group("v1beta2")))
    stub_server.otherwise(answer.refuses(404))
    for number in range(5):
        await refused(source, f"m{number}")
    assert [one.path for one in stub_server.asked].count(GROUP) == 1


async def test_concurrent_requests_share_one_discovery(source, stub_server, answer):
    async def reply(request):
        body = group("v1beta2") if request.path == GROUP else values(a="1")
        return await answer.says(200, body)(request)

    stub_server.otherwise(reply)
    await asyncio.gather(*(source.fetch(f"m{number}") for number in range(10)))
    assert [one.path for one in stub_server.asked].count(GROUP) == 1


async def test_missing_adapter_is_reported(source, stub_server, answer):
    stub_server.otherwise(answer.refuses(404))
    reason, says = await refused(source)
    assert reason == "no_api"
    assert "is an adapter installed?" in says


async def test_unsupported_versions_are_named(source, stub_server, answer):
    stub_server.otherwise(answer.says(200, group("v3")))
    reason, says = await refused(source)
    assert reason == "no_version"
    assert says == "custom.metrics.k8s.io is served as v3, not as v1beta2 or v1beta1"


@pytest.mark.parametrize("discovered", [False, True])
@pytest.mark.parametrize(
    ("code", "message"), [(500, "boom"), (503, "service unavailable"), (403, "forbidden")]
)
async def test_rejection_has_the_servers_message(
    source, stub_server, answer, discovered, code, message
):
    if discovered:
        stub_server.then(answer.says(200, group("v1beta2")))
    stub_server.otherwise(answer.refuses(code, message=message))
    assert await refused(source) == (f"http_{code}", f"{code} {message}")


async def test_same_fault_has_the_same_message_for_every_metric(source, stub_server, answer):
    """Otherwise an outage would fill the log."""
    stub_server.then(answer.says(200, group("v1beta2")))
    stub_server.otherwise(answer.breaks)
    assert await refused(source, "one") == await refused(source, "two")


@pytest.mark.parametrize("body", [b"<html>", b"", b"[]", b'{"items":[{"value":"1"}]}'])
async def test_invalid_response_is_a_failure(source, stub_server, answer, body):
    stub_server.then(answer.says(200, group("v1beta2")))
    stub_server.otherwise(answer.says(200, body))
    assert (await refused(source))[0] == "malformed"


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"versions":[{}]}', b'{"versions":7}'])
async def test_invalid_discovery_is_a_failure(source, stub_server, answer, body):
    stub_server.otherwise(answer.says(200, body))
    assert (await refused(source))[0] in {"unreachable", "malformed"}


async def test_empty_list_has_no_readings(source, stub_server, answer):
    stub_server.then(answer.says(200, group("v1beta2")))
    stub_server.otherwise(answer.says(200, values()))
    assert await refused(source) == ("empty", "it lists no node")


async def test_hanging_discovery_can_be_cancelled_and_restarted(source, stub_server, answer):
    stub_server.then(
        answer.hangs, answer.says(200, group("v1beta2")), answer.says(200, values(a="1"))
    )
    asking = asyncio.create_task(source.fetch("health_metric"))
    await stub_server.until(1)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert (await source.fetch("health_metric")).readings.keys() == {"a"}


async def test_age_uses_the_servers_clock(stub_server, connect, answer):
    """The server's Date is an hour ahead of our wall clock, and so are its readings."""
    source = CustomMetrics(await connect(stub_server.url), clock=lambda: 500.0, wall=NOON.timestamp)
    stub_server.then(answer.says(200, group("v1beta2")), answer.says(200, values(a="1")))
    at = (await source.fetch("health_metric")).readings["a"].at
    assert 440.0 < at <= 500.0
