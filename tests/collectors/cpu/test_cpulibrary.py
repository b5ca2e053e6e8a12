"""py-cpuinfo describes the CPU it runs on: it is called once, and only for its own machine."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from collectors.cpu import Cpu, Options
from collectors.cpu.cpulibrary import CpuLibrary, ask_library
from collectors.interface.host import Host

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
