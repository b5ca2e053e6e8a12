"""cpuinfo differs by architecture; equal facts are exported equally."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from collectors.cpu import Cpu, Options, cpuinfo
from collectors.cpu.cpuinfo import CpuLibrary, ask_library
from collectors.interface.host import Host
from collectors.interface.sample import CollectorError, Family

ARM64 = """\
processor\t: 0
BogoMIPS\t: 243.75
Features\t: fp asimd evtstrm aes sve
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x3
CPU part\t: 0xd0c
CPU revision\t: 1

processor\t: 1
BogoMIPS\t: 243.75
Features\t: fp asimd evtstrm aes sve
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x3
CPU part\t: 0xd0c
CPU revision\t: 1

Hardware\t: Ampere
"""
BIG_LITTLE = ARM64.replace("0xd0c", "0xd05", 1)
ARM32 = """\
Processor\t: ARMv7 Processor rev 10 (v7l)
processor\t: 0
BogoMIPS\t: 1581.05

processor\t: 1
BogoMIPS\t: 1581.05

Features\t: swp half thumb
Hardware\t: Freescale i.MX 6Quad
"""
POWER9 = """\
processor\t: 0
cpu\t\t: POWER9, altivec supported
clock\t\t: 3800.000000MHz
revision\t: 2.2 (pvr 004e 1202)

processor\t: 4
cpu\t\t: POWER9, altivec supported
clock\t\t: 2300.000000MHz
revision\t: 2.2 (pvr 004e 1202)

timebase\t: 512000000
platform\t: PowerNV
model\t\t: 8335-GTH
"""
S390X = """\
vendor_id       : IBM/S390
# processors    : 2
bogomips per cpu: 3033.00
features\t: esan3 zarch stfle vx
cache0          : level=1 type=Data scope=Private size=128K
processor 0: version = 00,  identification = 2733E8,  machine = 2964
processor 1: version = 00,  identification = 2733E8,  machine = 2964

cpu number      : 0
physical id     : 2
core id         : 0
cpu MHz dynamic : 5000
cpu MHz static  : 5000

cpu number      : 1
physical id     : 2
core id         : 1
cpu MHz dynamic : 5000
cpu MHz static  : 5000
"""
RISCV = """\
processor\t: 0
hart\t\t: 4
isa\t\t: rv64imafdc
mmu\t\t: sv39
uarch\t\t: sifive,u74-mc
"""
LOONGARCH = """\
system type\t\t: generic-loongson-machine

processor\t\t: 0
package\t\t\t: 0
core\t\t\t: 0
CPU Family\t\t: Loongson-64bit
Model Name\t\t: Loongson-3A5000
CPU MHz\t\t\t: 2500.00
"""


def infos(cpus: list[cpuinfo.Block]) -> list[dict[str, str]]:
    return [
        {k: v for k, v in sample.labels if v}
        for sample in cpuinfo.info(cpus).samples
        if sample.value == 1
    ]


def flags(cpus: list[cpuinfo.Block]) -> set[str]:
    return {s.labels[0][1] for f in cpuinfo.features(cpus, "flags", ".") for s in f.samples}


def hertz(cpus: list[cpuinfo.Block]) -> list[float]:
    found: list[Family] = list(cpuinfo.frequency(cpus))
    return [sample.value for family in found for sample in family.samples]


def test_arm64_has_no_model_and_no_frequency() -> None:
    cpus = cpuinfo.blocks(ARM64)
    assert infos(cpus) == [{"cpu": "0"}, {"cpu": "1"}]
    assert flags(cpus) == {"fp", "asimd", "evtstrm", "aes", "sve"}
    assert hertz(cpus) == []
    assert cpuinfo.lacks(cpus)


def test_first_line_of_old_arm_applies_to_all_cpus() -> None:
    cpus = cpuinfo.blocks(ARM32)
    model = "ARMv7 Processor rev 10 (v7l)"
    assert infos(cpus) == [{"cpu": "0", "model_name": model}, {"cpu": "1", "model_name": model}]


def test_power_describes_the_machine_after_its_cpus() -> None:
    cpus = cpuinfo.blocks(POWER9)
    vendor = "POWER9, altivec supported"
    assert infos(cpus) == [{"cpu": "0", "vendor": vendor}, {"cpu": "4", "vendor": vendor}]
    assert hertz(cpus) == [3.8e9, 2.3e9]


def test_s390_describes_all_cpus_first() -> None:
    cpus = cpuinfo.blocks(S390X)
    assert infos(cpus) == [
        {"cpu": "0", "package": "2", "core": "0", "vendor": "IBM/S390"},
        {"cpu": "1", "package": "2", "core": "1", "vendor": "IBM/S390"},
    ]
    assert flags(cpus) == {"esan3", "zarch", "stfle", "vx"}
    assert hertz(cpus) == [5e9, 5e9]


def test_riscv_and_loongarch_are_parsed() -> None:
    assert infos(cpuinfo.blocks(RISCV)) == [{"cpu": "0", "core": "4", "model_name": "rv64imafdc"}]
    assert infos(cpuinfo.blocks(LOONGARCH)) == [
        {
            "cpu": "0",
            "vendor": "generic-loongson-machine",
            "family": "Loongson-64bit",
            "model_name": "Loongson-3A5000",
        }
    ]


FACTS = {"model name": "Neoverse-N1", "vendor_id": "ARM", "flags": "asimd"}


def test_other_sources_only_fill_gaps() -> None:
    cpus = cpuinfo.completed(cpuinfo.blocks(ARM64), FACTS)
    assert infos(cpus)[1] == {"cpu": "1", "model_name": "Neoverse-N1", "vendor": "ARM"}
    assert "sve" in flags(cpus)
    assert flags(cpuinfo.completed(cpuinfo.blocks(RISCV), FACTS)) == {"asimd"}


def test_cpus_of_several_kinds_keep_their_own_names() -> None:
    cpus = cpuinfo.blocks(BIG_LITTLE)
    assert cpuinfo.completed(cpus, FACTS) == cpus


def test_line_without_a_colon_ends_no_block() -> None:
    text = "processor\t: 0\nvendor_id\t GenuineIntel\ncpu MHz\t\t: 2000.000\n"
    assert hertz(cpuinfo.blocks(text)) == [2e9]


@pytest.mark.parametrize("text", ["", "\n\n", "model name : x\n", "processor 0: version = 00\n"])
def test_cpuinfo_without_a_cpu_is_rejected(text: str) -> None:
    with pytest.raises(CollectorError, match="cpuinfo"):
        cpuinfo.blocks(text)


@pytest.mark.parametrize("text", ["Unknown", "fast", "", "-800.0", "1e300", "12 00"])
def test_cpu_without_a_readable_frequency_has_none(text: str, values) -> None:
    cpus = cpuinfo.blocks(f"processor: 0\ncpu MHz: 800.0\n\nprocessor: 1\ncpu MHz: {text}\n")
    found = values(cpuinfo.frequency(cpus))
    assert found == {'node_cpu_frequency_hertz{package="",core="",cpu="0"}': 8e8}


ANSWER = {"brand_raw": "Neoverse-N1", "vendor_id_raw": "ARM", "flags": ["aes", "asimd"], "bits": 64}


@pytest.fixture
def asked() -> list[str]:
    return []


@pytest.fixture
def library(tmp_path: Path, asked: list[str]):
    def ask() -> Mapping[str, Any]:
        asked.append("asked")
        return ANSWER

    def make(ours: str, theirs: str | None) -> CpuLibrary:
        for name, boot in (("own", ours), ("host", theirs)):
            directory = tmp_path / name / "sys/kernel/random"
            directory.mkdir(parents=True)
            if boot is not None:
                (directory / "boot_id").write_text(boot)
        return CpuLibrary(tmp_path / "host", query=ask, own=tmp_path / "own")

    return make


def test_library_is_called_once_for_its_own_machine(library, asked) -> None:
    found = library("7a-1\n", "7a-1\n")
    assert asked == []
    assert found.facts == {"model name": "Neoverse-N1", "vendor_id": "ARM", "flags": "aes asimd"}
    assert found.facts
    assert asked == ["asked"]


@pytest.mark.parametrize("theirs", ["8b-2\n", None])
def test_procfs_of_another_machine_ignores_this_cpu(library, asked, theirs) -> None:
    assert library("7a-1\n", theirs).facts == {}
    assert asked == []


def test_incomplete_result_adds_nothing(tmp_path: Path) -> None:
    (tmp_path / "sys/kernel/random").mkdir(parents=True)
    (tmp_path / "sys/kernel/random/boot_id").write_text("x")
    library = CpuLibrary(tmp_path, query=lambda: {"flags": [], "brand_raw": ""}, own=tmp_path)
    assert library.facts == {}


def test_library_identifies_this_cpu() -> None:
    answer = ask_library()
    assert answer["arch_string_raw"]
    assert isinstance(answer.get("flags", []), list)


def test_copied_procfs_without_models_is_exported_unchanged(tmp_path: Path, values) -> None:
    (tmp_path / "stat").write_text("cpu0 1 2 3 4\n")
    (tmp_path / "cpuinfo").write_text("processor: 0\nFeatures: fp asimd\n")
    host = Host(procfs=tmp_path, sysfs=tmp_path)
    found = values(Cpu(host, Options(cpu_info=True, cpu_flags_include="asimd")).collect())
    assert found['node_cpu_flag_info{flag="asimd"}'] == 1
    assert any('model_name=""' in series for series in found)
