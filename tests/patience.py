"""The timeout of waits in tests."""

import os
from dataclasses import replace

from plimsoll.http.limits import Limits

PATIENCE = float(os.environ.get("PLIMSOLL_TEST_PATIENCE", "180"))
"""Seconds after which a wait counts as a hang.

Far longer than a slow or busy machine needs, so that no test depends on speed. `PLIMSOLL_TEST_PATIENCE=10` fails faster while
you work on a test. Less than pytest's own `timeout`, so that a failed wait reports where it was.
"""


def patient(limits: Limits) -> Limits:
    """Return a server's limits for clients in the server's event loop, which are late whenever the server is."""
    return replace(limits, handshake=PATIENCE, header=PATIENCE)
