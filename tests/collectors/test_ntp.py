import contextlib
import socket
import struct
import threading
from dataclasses import replace

import pytest

from agent import config
from collectors.interface.host import Host
from collectors.interface.sample import CollectorError
from collectors.ntp import Ntp, Reply, is_sane, parse, stamp
from collectors.ntp import Options as NtpOptions

NOW = 1_700_000_000
OPTIONS = NtpOptions()


def at(seconds: float) -> int:
    return stamp(round(seconds * 1_000_000_000))


def packet(origin: int, *, first: int = 0x24, stratum: int = 2, reference: int = NOW - 60) -> bytes:
    """A server whose clock is 2 s ahead, and that replies after 0.5 s."""
    times = at(reference), origin, at(NOW + 2), at(NOW + 2.5)
    return struct.pack("!BBbbII4sQQQQ", first, stratum, 6, -20, 1 << 14, 1 << 15, b"GPS\0", *times)


def test_reply_is_parsed() -> None:
    reply = parse(packet(7), 7, at(NOW), at(NOW + 1))
    assert reply.stratum == 2
    assert reply.leap == 0
    assert reply.rtt == 0.5
    assert reply.offset == 1.75
    assert reply.reference == NOW - 60
    assert reply.root_delay == 0.25
    assert reply.root_dispersion == 0.5
    assert reply.error == 1.5, "sent 1.5 s after it arrived"


@pytest.mark.parametrize(
    "reply", [b"", b"\0" * 47, packet(8), packet(7, first=0x23)], ids=["none", "short", "other", "query"]
)  # fmt: skip
def test_other_packets_are_errors(reply: bytes) -> None:
    with pytest.raises(CollectorError, match="NTP"):
        parse(reply, 7, at(NOW), at(NOW))


GOOD = Reply(2, 0, 0.001, 0.0, NOW - 60, NOW, 0.01, 0.02, 0.0)


@pytest.mark.parametrize(
    ("change", "sane"),
    [
        ({}, True),
        ({"stratum": 0}, False),
        ({"stratum": 16}, False),
        ({"leap": 3}, False),
        ({"reference": NOW + 1}, False),
        ({"reference": NOW - 200_000}, False),
        ({"root_dispersion": 17.0}, False),
        ({"rtt": 8.0}, False),
        ({"error": 0.002}, False),
    ],
)
def test_sanity_of_a_reply(change: dict[str, float], sane: bool) -> None:
    assert is_sane(GOOD._replace(**change), OPTIONS, smearing=False) is sane


def test_smeared_leap_second_is_tolerated() -> None:
    late = GOOD._replace(error=0.9)
    assert not is_sane(late, OPTIONS, smearing=False)
    assert is_sane(late, OPTIONS, smearing=True)


@contextlib.contextmanager
def server(answer):
    """A server on loopback; `answer` makes the reply to a query, or none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0))

        def serve() -> None:
            query, peer = listener.recvfrom(512)
            listener.sendto(answer(query), peer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


def test_server_is_queried(values) -> None:
    def answer(query: bytes) -> bytes:
        assert len(query) == 48
        assert query[0] == 0x1B, "version 3, client"
        return packet(int.from_bytes(query[40:], "big"))

    clock = iter([NOW * 10**9, (NOW + 1) * 10**9])
    with server(answer) as port:
        options = replace(OPTIONS, ntp_port=port, ntp_version=3)
        found = values(Ntp(Host(), options, clock=lambda: next(clock)).collect())
    assert found["node_ntp_stratum"] == 2
    assert found["node_ntp_offset_seconds"] == 1.75
    assert found["node_ntp_sanity"] == 0, "1.5 s apart"


def test_machine_without_a_server_is_an_error() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(CollectorError, match="refused"):
        list(Ntp(Host(), replace(OPTIONS, ntp_port=port)).collect())


@pytest.mark.parametrize(
    ("flag", "sentence"),
    [
        ("--collector.ntp.server=pool.example.org", "is no loopback address"),
        ("--collector.ntp.protocol-version=5", "not a version of NTP"),
        ("--collector.ntp.server-port=0", "0 is no port"),
    ],
)
def test_mistaken_flag_is_rejected(flag: str, sentence: str, capsys) -> None:
    with pytest.raises(SystemExit) as exit_:
        config.parse([flag], {}, hostname="h")
    assert exit_.value.code == 2
    assert sentence in capsys.readouterr().err


def test_other_server_can_be_allowed() -> None:
    flags = [
        "--collector.ntp",
        "--collector.ntp.server=ntp.internal",
        "--collector.ntp.server-is-local",
    ]
    assert config.parse(flags, {}, hostname="h").collectors["ntp"].ntp_server == "ntp.internal"
