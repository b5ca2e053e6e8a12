"""Room for sockets, in a process of its own: what it may have cannot be had back."""

import subprocess
import sys

import pytest

from tests.patience import PATIENCE

PROGRAM = """
import resource
from evaluator import descriptors
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
print(descriptors.make_room({wanted}), resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(
    ("soft", "hard", "wanted", "had", "warned"),
    [
        (128, 512, 400, "400 (400, 512)", False),
        (128, 512, 512, "512 (512, 512)", False),
        (128, 512, 600, "512 (512, 512)", True),
        (300, 512, 200, "300 (300, 512)", False),
    ],
)
def test_as_much_room_is_made_as_is_wanted_or_may_be_had(soft, hard, wanted, had, warned):
    program = PROGRAM.format(soft=soft, hard=hard, wanted=wanted)
    ran = subprocess.run(
        [sys.executable, "-P", "-c", program],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert ran.stdout.splitlines()[-1] == had
    assert ("fewer open files" in ran.stdout + ran.stderr) is warned
