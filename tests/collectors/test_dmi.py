from pathlib import Path

import pytest

from collectors.dmi import Dmi
from collectors.interface.host import Host
from collectors.interface.sample import SourceAbsentError

ID = "sys/class/dmi/id"


def test_labels_are_those_of_readable_files(machine) -> None:
    (family,) = Dmi(machine("xeon")).collect()
    (sample,) = family.samples
    assert sample.value == 1
    labels = dict(sample.labels)
    assert labels["system_vendor"] == "Dell Inc."
    assert labels["product_sku"] == "SKU=0A6B;ModelName=PowerEdge R760"
    assert labels["chassis_asset_tag"] == "", "an empty file still exists"
    assert not labels.keys() & {"board_serial", "product_uuid", "chassis_type", "modalias"}


def test_unreadable_file_has_no_label(plant, values, failing_reads, tmp_path: Path) -> None:
    host = plant({f"{ID}/bios_vendor": "Acme\n"})
    failing_reads(tmp_path / ID / "product_serial")
    assert values(Dmi(host).collect()) == {'node_dmi_info{bios_vendor="Acme"}': 1}


def test_firmware_is_read_once(plant, values) -> None:
    collector = Dmi(plant({f"{ID}/bios_vendor": "Acme\n"}))
    before = values(collector.collect())
    plant({f"{ID}/bios_vendor": "Other\n"})
    assert values(collector.collect()) == before


def test_undecodable_firmware_bytes_are_replaced(plant, values, tmp_path: Path) -> None:
    host = plant({f"{ID}/product_version": ""})
    (tmp_path / ID / "product_version").write_bytes(b"\xd1[\xd1\n")
    assert values(Dmi(host).collect()) == {'node_dmi_info{product_version="\ufffd[\ufffd"}': 1}


@pytest.mark.parametrize("files", [{}, {"class/dmi/id/modalias": "dmi:"}])
def test_missing_dmi_is_an_absent_source(tmp_path: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    with pytest.raises(SourceAbsentError):
        list(Dmi(Host(sysfs=tmp_path)).collect())
