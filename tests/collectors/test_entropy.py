from pathlib import Path

import pytest

from collectors import entropy
from collectors.entropy import Entropy, parse
from collectors.interface.host import Host
from collectors.interface.sample import CollectorError, SourceAbsentError

PARSERS = {
    "entropy": lambda text: [entropy.parse("poolsize", text)],
}

SAMPLES = {
    "entropy": ("proc/sys/kernel/random/poolsize", lambda t: [entropy.parse("poolsize", t)]),
}


def test_available_bits_and_pool_size_are_exported(machine, values) -> None:
    assert values(Entropy(machine("xeon")).collect()) == {
        "node_entropy_available_bits": 256,
        "node_entropy_pool_size_bits": 256,
    }


def test_available_bits_are_read_each_time(tmp_path: Path, values) -> None:
    directory = tmp_path / "sys/kernel/random"
    directory.mkdir(parents=True)
    collector = Entropy(Host(procfs=tmp_path))
    for available in (3754, 120):
        (directory / "entropy_avail").write_text(f"{available}\n")
        (directory / "poolsize").write_text("4096\n")
        found = values(collector.collect())
        assert found["node_entropy_available_bits"] == available
        assert found["node_entropy_pool_size_bits"] == 4096


def test_half_a_source_is_exported_and_none_is_absent(tmp_path: Path, values) -> None:
    directory = tmp_path / "sys/kernel/random"
    directory.mkdir(parents=True)
    with pytest.raises(SourceAbsentError):
        list(Entropy(Host(procfs=tmp_path)).collect())
    (directory / "entropy_avail").write_text("256\n")
    assert values(Entropy(Host(procfs=tmp_path)).collect()) == {"node_entropy_available_bits": 256}


@pytest.mark.parametrize("text", ["", "\n", "-1", "256 bits", "0x100", "9" * 30])
def test_non_number_is_rejected(text: str) -> None:
    with pytest.raises(CollectorError, match="poolsize"):
        parse("poolsize", text)
