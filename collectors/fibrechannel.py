"""Fibre Channel host ports and their counters, from <sysfs>/class/fc_host."""

from collections.abc import Iterator

from collectors.interface import host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import Family
from collectors.shared import attributes, sysfs

_CLASS = "<sysfs>/class/fc_host"
# File below statistics, the metric's name after node_fibrechannel_, its HELP.
# fmt: off
_COUNTERS = (
    ("dumped_frames", "dumped_frames_total", "Number of dumped frames"),
    ("error_frames", "error_frames_total", "Number of errors in frames"),
    ("fcp_packet_aborts", "fcp_packet_aborts_total", "Number of aborted packets"),
    ("invalid_crc_count", "invalid_crc_total", "Invalid Cyclic Redundancy Check count"),
    ("invalid_tx_word_count", "invalid_tx_words_total", "Number of invalid words transmitted by host port"),
    ("link_failure_count", "link_failure_total", "Number of times the host port link has failed"),
    ("loss_of_signal_count", "loss_of_signal_total", "Number of times signal has been lost"),
    ("loss_of_sync_count", "loss_of_sync_total", "Number of failures on either bit or transmission word boundaries"),
    ("nos_count", "nos_total", "Number Not_Operational Primitive Sequence received by host port"),
    ("rx_frames", "rx_frames_total", "Number of frames received"),
    ("rx_words", "rx_words_total", "Number of words received by host port"),
    ("seconds_since_last_reset", "seconds_since_last_reset_total", "Number of seconds since last host port reset"),
    ("tx_frames", "tx_frames_total", "Number of frames transmitted by host port"),
    ("tx_words", "tx_words_total", "Number of words transmitted by host port"),
)
# fmt: on
_INFO = (
    "speed",
    "port_state",
    "port_type",
    "port_id",
    "port_name",
    "fabric_name",
    "symbolic_name",
    "supported_classes",
    "supported_speeds",
    "dev_loss_tmo",
)  # fmt: skip
_HEXADECIMAL = frozenset({"port_id", "port_name", "fabric_name"})
METRICS = Table(
    Metric(
        "node_fibrechannel_info",
        "gauge",
        "Non-numeric data from /sys/class/fc_host/<host>, value is always 1.",
        f"{_CLASS}/*",
        ("fc_host", *_INFO),
    ),
    *(
        Metric(
            f"node_fibrechannel_{name}",
            "counter",
            about,
            f"{_CLASS}/*/statistics/{file}",
            ("fc_host",),
        )
        for file, name, about in _COUNTERS
    ),
)
_NAMES = {file: f"node_fibrechannel_{name}" for file, name, _ in _COUNTERS}
_NOT_COUNTED = (1 << 64) - 1  # of a firmware without this counter


class FibreChannel:
    """The `fibrechannel` collector."""

    def __init__(self, machine: host.Host) -> None:
        self._directory = machine.sysfs / "class/fc_host"

    def collect(self) -> Iterator[Family]:
        """Read the source now. A port that is offline may have no counters."""
        rows: dict[str, list[tuple[tuple[str, ...], float]]] = {file: [] for file in _NAMES}
        info = []
        for port in sysfs.listing(self._directory):
            info.append(((port, *self._info(port)), 1.0))
            for file, samples in rows.items():
                text = sysfs.attribute(f"{self._directory}/{port}/statistics/{file}")
                value = None if text is None else attributes.parse_number(text)
                if value is not None and value != _NOT_COUNTED:
                    samples.append(((port,), float(value)))
        yield METRICS.family("node_fibrechannel_info", info)
        for file, samples in rows.items():
            yield METRICS.family(_NAMES[file], samples)

    def _info(self, port: str) -> Iterator[str]:
        for file in _INFO:
            text = sysfs.attribute(f"{self._directory}/{port}/{file}") or ""
            yield text.removeprefix("0x") if file in _HEXADECIMAL else text


ENTRY = Entry(
    build=lambda host, _: FibreChannel(host),
    metrics=METRICS,
    about="Fibre Channel ports",
    source="<sysfs>/class/fc_host",
)
