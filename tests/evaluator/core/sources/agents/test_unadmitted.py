"""What clients may send before they are admitted: which connections are read, wait, or are closed."""

import pytest

from evaluator.core.sources.agents.unadmitted import Bounds, Unadmitted, network

KB = 1 << 10
INTRODUCTION = 6 * KB
"""What an agent sends until it is admitted."""
STEP = 0.1


class Port:
    """Clients that send what they can, in parts of 2 KiB, on a clock that the test sets. Agents are admitted after their last byte."""

    def __init__(self, **bounds):
        self.unadmitted = Unadmitted(Bounds(**bounds))
        self.now = 1000.0
        self.closed = []
        self.admitted = []
        self._unsent = {}
        self._agents = set()
        self._last = 0

    def connect(self, address="10.0.0.1", size=0):
        self._last += 1
        self._unsent[self._last] = size
        self._close(self.unadmitted.enter(self._last, address, self.now))
        return self._last

    def agents(self, count, address="10.0.0.1", size=INTRODUCTION):
        found = [self.connect(address, size) for _ in range(count)]
        self._agents.update(found)
        return found

    def run(self, seconds=STEP):
        until = self.now + seconds
        while self.now < until:
            sending = list(self._unsent)
            while sending:
                sending = [number for number in sending if self._send(number)]
            self.now += STEP
            tuple(self.unadmitted.startable(self.now))
            for number in tuple(self.unadmitted.silent(self.now)):
                self._close(number)

    def _send(self, number):
        """Send a part; returns whether it was sent."""
        if not self._unsent.get(number) or not self.unadmitted.start(number, self.now):
            return False
        size = min(2 * KB, self._unsent[number])
        self._unsent[number] -= size
        if not self.unadmitted.receive(number, size, self.now):
            self._close(number)
        elif number in self._agents and not self._unsent[number]:
            self.unadmitted.admit(number)
            self.admitted.append(number)
            del self._unsent[number]
        return True

    def _close(self, number):
        if number is not None:
            self.unadmitted.end(number, self.now)
            self.closed.append(number)
            del self._unsent[number]


def test_connection_is_closed_beyond_its_bound():
    port = Port(connection=100 * KB)
    port.connect(size=100 * KB)
    excessive = port.connect(size=101 * KB)
    port.run()
    assert port.closed == [excessive]


def test_large_introduction_is_admitted():
    port = Port(connection=100 * KB)
    assert port.agents(1, size=100 * KB)
    port.run()
    assert port.admitted
    assert not port.closed


def test_agents_of_one_address_are_admitted_whatever_their_number():
    port = Port()
    agents = port.agents(5_000)
    port.run(seconds=5.0)
    assert port.admitted == agents


def test_address_floods_at_a_rate_after_a_burst():
    port = Port(address=1000 * KB, rate=100 * KB)
    for _ in range(300):
        port.connect(size=8 << 20)
    port.run()
    burst = len(port.closed)
    assert 1000 // 128 <= burst <= 1000 // 16
    port.run(seconds=10.0)
    assert 10 * 100 // 128 <= len(port.closed) - burst <= 11 * 100 // 16


def test_agents_are_admitted_while_another_client_of_their_address_floods():
    port = Port()
    flood, agents = set(), []
    for step in range(200):
        while len(flood - set(port.closed)) < 8:
            flood.add(port.connect(size=8 << 20))
        if step == 100:
            agents = port.agents(100)
        port.run()
    assert sorted(port.admitted) == agents
    assert set(port.closed) <= flood


def test_agent_that_was_begun_is_not_closed_for_bytes_of_others():
    port = Port(address=64 * KB)
    number = port.connect(size=KB)
    port.run()
    for _ in range(10):
        port.connect(size=8 << 20)
    port.run()
    assert port.unadmitted.receive(number, 15 * KB, port.now)


def test_agents_of_other_addresses_do_not_wait():
    port = Port(address=64 * KB)
    for _ in range(100):
        port.connect(size=8 << 20)
    port.run()
    agents = port.agents(4, "10.0.0.2")
    port.run()
    assert port.admitted == agents


def test_silent_connection_is_closed_sooner_when_others_wait_for_it():
    port = Port(address=32 * KB, silence=30.0)
    holding = [port.connect(size=KB) for _ in range(2)]
    other = port.connect("10.0.0.2", size=KB)
    port.run()
    (agent,) = port.agents(1)
    port.run(seconds=6.0)
    assert port.closed == holding
    assert port.admitted == [agent]
    port.run(seconds=30.0)
    assert port.closed == [*holding, other]


def test_address_with_too_many_connections_loses_the_one_silent_longest():
    port = Port(connections=16)
    first, *_ = [port.connect() for _ in range(9)]
    assert port.closed == [first]
    assert port.connect("10.0.0.2") not in port.closed


def test_connection_that_waits_is_not_closed_as_silent():
    port = Port(connections=8, address=16 * KB)
    port.connect(size=KB)
    waiting = [port.connect(size=KB) for _ in range(3)]
    port.run()
    newest = port.connect()
    assert not set(port.closed) & set(waiting)
    assert newest not in port.closed


def test_addresses_without_connections_are_forgotten():
    port = Port(silence=5.0)
    port.connect(size=100 * KB)
    port.agents(1, "10.0.0.2")
    port.run(seconds=10.0)
    assert not port.unadmitted._addresses


@pytest.mark.parametrize(
    ("host", "counted"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("fd00:1:2:3:4:5:6:7", "fd00:1:2:3::"),
        ("fe80::1%eth0", "fe80::"),
    ],
)
def test_addresses_are_those_that_one_machine_has(host, counted):
    assert network(host) == counted
