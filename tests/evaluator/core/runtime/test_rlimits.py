"""File descriptor limits, in a process of its own: a lowered limit cannot be raised again."""

import subprocess
import sys

import pytest

from tests.patience import PATIENCE

PROGRAM = """
import resource
from evaluator.core.runtime import rlimits
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
print(rlimits.share({wanted}, reserved={reserved}), resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(
    ("soft", "hard", "wanted", "reserved", "had", "warned"),
    [
        pytest.param(128, 512, 300, 100, "300 (400, 512)", False, id="raised"),
        pytest.param(128, 512, 412, 100, "412 (512, 512)", False, id="raised to the hard limit"),
        pytest.param(300, 512, 100, 100, "100 (300, 512)", False, id="enough"),
        pytest.param(
            128, 512, 500, 100, "412 (512, 512)", True, id="reserved descriptors are kept"
        ),
        pytest.param(128, 512, 500, 400, "256 (512, 512)", True, id="half where both do not fit"),
        pytest.param(128, 512, 100, 500, "100 (512, 512)", True, id="no more than wanted"),
    ],
)
def test_port_gets_what_it_wants_beside_reserved_descriptors(
    soft, hard, wanted, reserved, had, warned
):
    program = PROGRAM.format(soft=soft, hard=hard, wanted=wanted, reserved=reserved)
    ran = subprocess.run(
        [sys.executable, "-P", "-c", program],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert ran.stdout.splitlines()[-1] == had
    assert ("fewer open files" in ran.stdout + ran.stderr) is warned
