"""Random requests to a running evaluator get permitted responses and do no harm."""

import asyncio
import contextlib
import random
import sys

import pytest

from tests.fuzz.http_requests import Shots
from tests.fuzz.sender import Gunner, Line
from tests.fuzz.service import House
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
async def house(request, tmp_path, authority):
    made = House(tmp_path, authority if request.param == "tls" else None)
    try:
        yield made
    finally:
        await made.close()


async def test_random_requests_are_answered_as_by_the_rfc(house, corpus, soak):
    level = "warn" if soak else "info"
    await house.start(f"--log.level={level}", program=tuned(limits={"body_bytes": 12 << 10}))
    kind = "tls" if house.tls else "plain"
    count = FULL if soak else SMALL
    gunner = Gunner(house.ports["port"], Shots(corpus("extender"), random.Random(kind)), house.tls)
    with contextlib.closing(gunner):
        await asyncio.to_thread(gunner.fire, int(count * WARM_UP))
    await _until(lambda: house.connections == 0)
    warm, idle = house.resident, house.descriptors
    with contextlib.closing(gunner):
        await asyncio.to_thread(gunner.fire, count - int(count * WARM_UP))
        grown = house.resident - warm
    told = dict(gunner.counted)
    memory = f"{warm >> 20} MiB when warm, {grown / (1 << 20):+.1f} MiB after"
    sys.stdout.write(f"{kind}: {told}, {memory}\n")
    assert grown <= GROWTH, told
    await _until(lambda: house.connections == 0 and house.descriptors <= idle)
    assert {200, 400, 404, 405} <= told.keys(), told
    assert not soak or {413, 417, 431, 501} <= told.keys(), told
    await _is_unharmed(house)


@pytest.mark.parametrize("house", ["plain"], indirect=True)
async def test_random_pages_are_rejected_as_by_the_rfc(house, soak):
    await house.start()
    port, shots = house.ports["opsPort"], Shots((), random.Random("pages"))
    gunner = Gunner(port, shots, None)

    def fire():
        for _ in range(PAGES_FULL if soak else PAGES_SMALL):
            gunner.try_alone(shots.page(), Line(port, kind=b""))

    await asyncio.to_thread(fire)
    assert {200, 400, 404, 405} <= gunner.counted.keys(), gunner.counted
    await _is_unharmed(house)


async def _until(predicate):
    async with asyncio.timeout(PATIENCE):
        while not await asyncio.to_thread(predicate):  # noqa: ASYNC110 (the kernel tells nobody)
            await asyncio.sleep(0.05)


async def _is_unharmed(house):
    with house.log.open(encoding="utf-8") as log:
        assert not [line for line in log if "Traceback" in line or "level=error" in line]
    assert 'code="500"' not in await house.metrics()
