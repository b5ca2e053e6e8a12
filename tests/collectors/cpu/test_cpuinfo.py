"""cpuinfo differs by architecture; equal facts are exported equally."""

import pytest

from collectors.cpu import cpuinfo
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


@pytest.mark.parametrize("text", ["", "\n\n", "model name : x\n", "processor 0: version = 00\n"])
def test_cpuinfo_without_a_cpu_is_rejected(text: str) -> None:
    with pytest.raises(CollectorError, match="cpuinfo"):
        cpuinfo.blocks(text)


def test_non_numeric_frequency_is_rejected() -> None:
    with pytest.raises(CollectorError, match="cpu MHz"):
        list(cpuinfo.frequency(cpuinfo.blocks("processor: 0\ncpu MHz: fast\n")))
