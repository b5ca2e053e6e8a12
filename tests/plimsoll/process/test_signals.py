"""Signals that end a program."""

import subprocess
import sys

from tests.patience import PATIENCE

INTERRUPTED = """
import random, signal, sys
from plimsoll.process.signals import StopSignals

for number in range(20_000):
    stop = StopSignals([signal.SIGALRM])
    assert not stop.wait(0)
    signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, 4e-5))
    assert stop.wait() and stop.wait(0.0)
print("ended")
"""


def test_signal_at_any_moment_ends_the_wait():
    """Also while the program begins to wait."""
    command = [sys.executable, "-P", "-c", INTERRUPTED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.stdout, done.stderr) == ("ended\n", "")
