"""A bounded pool of connections: when it is full, a new connection ends one that is waiting for its client."""

import asyncio
from collections import Counter
from enum import Enum, auto

Task = asyncio.Task[None]


class ConnectionState(Enum):
    """The current state of a connection."""

    IDLE = auto()
    RECEIVING = auto()
    ANSWERING = auto()
    SENDING = auto()


class ConnectionPool:
    """Connections by task, ordered by the time since which they wait for their client.

    A connection is unproven until its client has sent a request or presented a certificate.

    A quarter of the places is reserved for unproven connections, such as a kubelet's probes. While they hold no more than
    that, a new connection ends an idle proven one; otherwise an unproven one. Clients with a certificate go last. Of several,
    it ends the one whose peer (address) holds most connections, and of that peer's the one that has waited longest.
    """

    def __init__(self, limit: int, *, sending: int) -> None:
        """`limit`: maximum connections. `sending`: maximum connections with a reply not taken yet."""
        self._limit = limit
        self._reserved = limit // 4
        self._sending = sending
        self._peers: dict[Task, str] = {}
        self._held: Counter[str] = Counter()
        self._certified: set[Task] = set()
        self._clients: set[Task] = set()
        self._in_request: set[Task] = set()
        self._newcomers: dict[Task, ConnectionState] = {}
        self._idle: dict[Task, ConnectionState] = {}
        self._idle_certified: dict[Task, ConnectionState] = {}
        self._unread: dict[Task, ConnectionState] = {}
        self._waiting = (self._newcomers, self._idle, self._idle_certified, self._unread)

    @property
    def tasks(self) -> set[Task]:
        """All connections."""
        return set(self._peers)

    @property
    def full(self) -> bool:
        """Whether a new connection ends another one."""
        return len(self._peers) >= self._limit

    @property
    def busy(self) -> bool:
        """Whether a request is being received or answered."""
        return bool(self._in_request)

    def admit(self, task: Task, *, peer: str) -> None:
        """Add a connection; `peer` is its client's address."""
        self._peers[task] = peer
        self._held[peer] += 1
        self._newcomers[task] = ConnectionState.IDLE
        task.add_done_callback(self._gone)

    def mark_verified(self, task: Task) -> None:
        """Record that a connection's client presented an accepted certificate."""
        self._certified.add(task)
        self._clients.add(task)
        self.set_state(task, ConnectionState.IDLE)

    def set_state(self, task: Task, state: ConnectionState) -> None:
        """Record a connection's new state."""
        self._forget(task)
        if state is not ConnectionState.IDLE:
            self._in_request.add(task)
        if state is ConnectionState.ANSWERING:
            self._clients.add(task)
        elif task not in self._clients:
            self._newcomers[task] = state
        elif state is ConnectionState.SENDING:
            self._unread[task] = state
            if len(self._unread) > self._sending:
                _end(self._unread, next(iter(self._unread)))
        else:
            idle = self._idle_certified if task in self._certified else self._idle
            idle[task] = state

    def has_capacity(self) -> bool:
        """Return whether one more connection may be admitted, ending another one if necessary.

        Connections without a request, and those that do not take their reply, never keep a new one out: a probe that is rejected
        restarts the process.
        """
        if not self.full:
            return True
        if self._idle and len(self._newcomers) <= self._reserved:
            self._end_one(self._idle)
            return True
        for waiting in self._waiting:
            if waiting:
                self._end_one(waiting)
                return True
        return False

    def end_idle(self) -> None:
        """End the connections without a request."""
        for waiting in (self._newcomers, self._idle, self._idle_certified):
            for task, state in waiting.items():
                if state is ConnectionState.IDLE:
                    task.cancel()

    def _end_one(self, waiting: dict[Task, ConnectionState]) -> None:
        """End the connection that has waited longest, of the peer that holds most."""
        _end(waiting, max(waiting, key=lambda task: self._held[self._peers[task]]))

    def _gone(self, task: Task) -> None:
        peer = self._peers.pop(task)
        self._held[peer] -= 1
        if not self._held[peer]:
            del self._held[peer]
        self._clients.discard(task)
        self._certified.discard(task)
        self._forget(task)

    def _forget(self, task: Task) -> None:
        self._in_request.discard(task)
        for waiting in self._waiting:
            waiting.pop(task, None)


def _end(waiting: dict[Task, ConnectionState], task: Task) -> None:
    del waiting[task]
    task.cancel()
