"""The suite of attacks at a small size: rows, bounds, and one attack on each program."""

import shutil
from pathlib import Path

import pytest

from bench import attack
from bench.attack import ATTACKS, Row
from tests.security import floods

pytestmark = pytest.mark.features("gangs", "pages")

QUIET = [1.0] * 99 + [10.0]


def row(beside=QUIET, **more):
    return Row("x", quiet=QUIET, beside=beside, probes=9, before=100.0, after=100.0, **more)


def test_row_is_within_its_bounds_up_to_three_times_the_quiet_p99():
    assert row().within
    assert row([30.0] * 100).within
    assert not row([31.0] * 100).within


def test_failed_probe_or_memory_that_stays_is_beyond_the_bounds():
    assert not row(failed=1).within
    kept = row()
    kept.after = 121.0
    assert not kept.within
    assert "beyond" in str(kept)


def test_every_kind_of_flood_has_a_row():
    source = Path(attack.__file__).read_text()
    assert [kind for kind in floods.KINDS if f'flood("{kind}"' not in source] == []


@pytest.mark.e2e
@pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not on PATH")
def test_one_attack_on_each_program_is_measured():
    first = {one.target: one for one in reversed(ATTACKS)}
    rows = [*attack.table([*first.values()], nodes=20, policies=2, seconds=0.4)]
    assert [found.attack for found in rows] == [first[k].name for k in ("evaluator", "agent")]
    for found in rows:
        assert found.quiet
        assert found.beside
        assert found.probes > 0
        assert 0 < found.before <= found.peak
        assert found.attack in str(found)
