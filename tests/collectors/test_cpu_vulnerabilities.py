from pathlib import Path

import pytest

from collectors import cpu_vulnerabilities
from collectors.cpu_vulnerabilities import CpuVulnerabilities, parse
from collectors.interface.host import Host
from collectors.interface.sample import CollectorError, SourceAbsentError

PARSERS = {
    "cpu_vulnerabilities": cpu_vulnerabilities.parse,
}


SMT = "Vulnerable: Clear CPU buffers attempted, no microcode; SMT vulnerable"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Not affected\n", ("not affected", "")),
        ("Vulnerable\n", ("vulnerable", "")),
        (f"{SMT}\n", ("vulnerable", "Clear CPU buffers attempted, no microcode; SMT vulnerable")),
        ("Mitigation: PTI\n", ("mitigation", "PTI")),
        ("Mitigation: TSX disabled; \tSMT off\n", ("mitigation", "TSX disabled; SMT off")),
        ("Unknown: No mitigations\n", ("unknown", "No mitigations")),
        ("KVM: Mitigation: VMX disabled\n", ("unknown", "KVM: Mitigation: VMX disabled")),
        ("", ("unknown", "")),
    ],
)
def test_states_are_parsed(text: str, parts: tuple[str, str]) -> None:
    assert parse(text) == parts


def test_every_listed_vulnerability_is_exported(machine, values) -> None:
    found = values(CpuVulnerabilities(machine("xeon")).collect())
    assert len(found) == 6
    meltdown = 'codename="meltdown",state="not affected",mitigation=""'
    assert found[f"node_cpu_vulnerabilities_info{{{meltdown}}}"] == 1


def test_unreadable_file_hides_no_other(plant, values, failing_reads, tmp_path: Path) -> None:
    directory = "sys/devices/system/cpu/vulnerabilities"
    failing_reads(tmp_path / directory / "mds")
    collector = CpuVulnerabilities(plant({}))
    with pytest.raises(CollectorError, match="can be read"):
        list(collector.collect())
    plant({f"{directory}/l1tf": "Not affected\n"})
    assert len(values(collector.collect())) == 1


def test_kernels_before_4_15_are_an_absent_source(tmp_path: Path) -> None:
    with pytest.raises(SourceAbsentError):
        list(CpuVulnerabilities(Host(sysfs=tmp_path)).collect())
