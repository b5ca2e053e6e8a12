from pathlib import Path

import pytest

from collectors.edac import METRICS, Edac, dimm_label
from collectors.interface.host import Host
from collectors.interface.sample import SourceAbsentError

MC = "sys/devices/system/edac/mc"


def test_rows_channels_and_dimms_of_a_server_are_exported(machine, values) -> None:
    first = 'dimm_label="CPU_SrcID0_MC0_Chan0_DIMM0"'
    second = 'dimm_label="CPU_SrcID0_MC0_Chan1_DIMM0"'
    assert values(Edac(machine("xeon")).collect()) == {
        'node_edac_correctable_errors_total{controller="0"}': 17,
        'node_edac_uncorrectable_errors_total{controller="0"}': 1,
        'node_edac_csrow_correctable_errors_total{controller="0",csrow="0"}': 15,
        'node_edac_csrow_correctable_errors_total{controller="0",csrow="unknown"}': 2,
        'node_edac_csrow_uncorrectable_errors_total{controller="0",csrow="0"}': 1,
        'node_edac_csrow_uncorrectable_errors_total{controller="0",csrow="unknown"}': 0,
        f'node_edac_channel_correctable_errors_total{{controller="0",csrow="0",channel="0",{first}}}': 15,
        f'node_edac_channel_correctable_errors_total{{controller="0",csrow="0",channel="1",{second}}}': 0,
        f'node_edac_dimm_correctable_errors_total{{controller="0",dimm="0",{first}}}': 15,
        f'node_edac_dimm_correctable_errors_total{{controller="0",dimm="4",{second}}}': 0,
        f'node_edac_dimm_uncorrectable_errors_total{{controller="0",dimm="0",{first}}}': 1,
        f'node_edac_dimm_uncorrectable_errors_total{{controller="0",dimm="4",{second}}}': 0,
    }


def test_ranks_are_dimms_if_counted_by_rank(plant, values) -> None:
    host = plant(
        {
            f"{MC}/mc12/rank3/dimm_ce_count": "5\n",
            f"{MC}/mc12/rank3/dimm_label": "mc#12csrow#0channel#3\n",
        }
    )
    assert values(Edac(host).collect()) == {
        'node_edac_dimm_correctable_errors_total{controller="12",dimm="3",dimm_label="mc12_csrow0_channel3"}': 5
    }  # fmt: skip


def test_unreadable_counter_hides_no_other(plant, values, failing_reads, tmp_path: Path) -> None:
    host = plant({f"{MC}/mc0/ce_count": "1\n", f"{MC}/mc0/csrow0/ch0_ce_count": "2\n"})
    failing_reads(tmp_path / MC / "mc0/ue_count")
    failing_reads(tmp_path / MC / "mc0/csrow0/ch0_dimm_label")
    assert values(Edac(host).collect()) == {
        'node_edac_correctable_errors_total{controller="0"}': 1,
        'node_edac_channel_correctable_errors_total{controller="0",csrow="0",channel="0",dimm_label="unknown"}': 2,
    }


def test_labels_written_after_boot_are_read(plant, values) -> None:
    files = {f"{MC}/mc0/dimm0/dimm_ce_count": "0\n", f"{MC}/mc0/dimm0/dimm_label": "\n"}
    collector = Edac(plant(files))
    assert 'dimm_label=""' in str(values(collector.collect()))
    plant({f"{MC}/mc0/dimm0/dimm_label": "DIMM_A1\n"})
    assert 'dimm_label="DIMM_A1"' in str(values(collector.collect()))


def test_controller_loaded_later_is_found(plant, values) -> None:
    collector = Edac(plant({f"{MC}/mc0/ce_count": "1\n", f"{MC}/power/control": "auto\n"}))
    assert len(values(collector.collect())) == 1
    plant({f"{MC}/mc1/ce_count": "2\n"})
    assert values(collector.collect())['node_edac_correctable_errors_total{controller="1"}'] == 2


def test_machine_without_ecc_is_an_absent_source(tmp_path: Path) -> None:
    with pytest.raises(SourceAbsentError):
        list(Edac(Host(sysfs=tmp_path)).collect())


@pytest.mark.parametrize(
    ("text", "label"),
    [(None, "unknown"), ("", ""), ("CPU#0Channel#1_DIMM#0", "CPU0Channel1_DIMM0")],
)
def test_dimm_labels_are_parsed(text: str | None, label: str) -> None:
    assert dimm_label(text) == label


def test_counters_by_dimm_are_not_of_node_exporter() -> None:
    ours = {metric.name for metric in METRICS if not metric.node_exporter}
    assert ours == {f"node_edac_dimm_{kind}correctable_errors_total" for kind in ("", "un")}
