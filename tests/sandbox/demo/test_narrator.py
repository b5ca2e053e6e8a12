"""What a demo prints fits a terminal of 80 columns."""

import io

import pytest

from sandbox.demo.narrator import Narrator


async def seen():
    return True


@pytest.mark.parametrize("what", ["it runs", "node-b gets no new pods " * 6])
async def test_observation_fits_80_columns_and_has_one_mark_and_time(what):
    out = io.StringIO()
    await Narrator(out).wait_for(what, seen)
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert " ".join(out.getvalue().replace("✓", "").split()).startswith(what.strip())
    assert out.getvalue().count("✓") == 1
    assert lines[0].startswith("   ✓ ")
    assert lines[-1].endswith(" 0 ms")


def test_paragraph_fits_80_columns():
    out = io.StringIO()
    Narrator(out).paragraph("A node becomes unhealthy and gets no new pods. " * 5)
    assert max(map(len, out.getvalue().splitlines())) <= 80
