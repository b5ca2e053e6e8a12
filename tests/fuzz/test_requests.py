"""Random requests to a running evaluator get permitted responses and do no harm."""

import asyncio
import contextlib
import random
import sys

import pytest

from tests.fuzz.http_requests import RequestGenerator
from tests.fuzz.sender import Connection, Sender
from tests.fuzz.service import Service
from tests.patience import PATIENCE
from tests.tuned_evaluator import tuned

pytestmark = pytest.mark.e2e

SMALL, FULL = 1_500, 500_000
"""Requests of each kind, plain and over TLS."""
WARM_UP = 0.2
"""The share of them after which memory may not grow: by then every path was taken, and every pool has its size."""
GROWTH = 48 << 20
"""Bytes: variation by allocators, the interpreter and the kernel's accounting."""


PAGES_SMALL, PAGES_FULL = 300, 30_000


@pytest.fixture(params=["plain", "tls"])
async def service(request, tmp_path, authority):
    made = Service(tmp_path, authority if request.param == "tls" else None)
    try:
        yield made
    finally:
        await made.close()


async def test_random_requests_are_answered_as_by_the_rfc(service, corpus, soak):
    level = "warn" if soak else "info"
    await service.start(f"--log.level={level}", program=tuned(limits={"body_bytes": 12 << 10}))
    kind = "tls" if service.tls else "plain"
    count = FULL if soak else SMALL
    sender = Sender(
        service.ports["port"],
        RequestGenerator(corpus("extender"), random.Random(kind)),
        service.tls,
    )
    with contextlib.closing(sender):
        await asyncio.to_thread(sender.fire, int(count * WARM_UP))
    await _until(lambda: service.connections == 0)
    warm, idle = service.resident, service.descriptors
    with contextlib.closing(sender):
        await asyncio.to_thread(sender.fire, count - int(count * WARM_UP))
        grown = service.resident - warm
    told = dict(sender.counted)
    memory = f"{warm >> 20} MiB when warm, {grown / (1 << 20):+.1f} MiB after"
    sys.stdout.write(f"{kind}: {told}, {memory}\n")
    assert grown <= GROWTH, told
    await _until(lambda: service.connections == 0 and service.descriptors <= idle)
    assert {200, 400, 404, 405} <= told.keys(), told
    assert not soak or {413, 417, 431, 501} <= told.keys(), told
    await _is_unharmed(service)


@pytest.mark.parametrize("service", ["plain"], indirect=True)
async def test_random_pages_are_rejected_as_by_the_rfc(service, soak):
    await service.start()
    port, generator = service.ports["opsPort"], RequestGenerator((), random.Random("pages"))
    sender = Sender(port, generator, None)

    def fire():
        for _ in range(PAGES_FULL if soak else PAGES_SMALL):
            sender.try_alone(generator.page(), Connection(port, kind=b""))

    await asyncio.to_thread(fire)
    assert {200, 400, 404, 405} <= sender.counted.keys(), sender.counted
    await _is_unharmed(service)


async def _until(predicate):
    async with asyncio.timeout(PATIENCE):
        while not await asyncio.to_thread(predicate):  # noqa: ASYNC110 (the kernel tells nobody)
            await asyncio.sleep(0.05)


async def _is_unharmed(service):
    with service.log.open(encoding="utf-8") as log:
        assert not [link for link in log if "Traceback" in link or "level=error" in link]
    assert 'code="500"' not in await service.metrics()
