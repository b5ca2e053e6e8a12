"""A watch event larger than etcd stores: an error that causes a list, before it is held in memory."""

import pytest

from evaluator.core.kube import transport
from evaluator.core.kube.transport import LONGEST_LINE, KubeError


class Endless:
    """A response without a newline."""

    def __init__(self):
        self.content, self.sent, self.closed = self, 0, False

    async def iter_any(self):
        while True:
            self.sent += 1 << 16
            yield b"x" * (1 << 16)

    def close(self):
        self.closed = True


async def test_endless_watch_event_is_refused():
    response = Endless()
    with pytest.raises(KubeError, match="an event of more than") as refused:
        [line async for line in transport.lines(response, "watch of nodes")]
    assert refused.value.gone
    assert response.closed
    assert response.sent <= LONGEST_LINE + (1 << 16)
