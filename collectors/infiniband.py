"""Ports of InfiniBand and RoCE adapters: state, rate and hardware counters, from <sysfs>/class/infiniband.

`counters` are those the standard requires, `counters_ext` their 64-bit variants in kernels before 4.5 (exported as legacy),
`hw_counters` a driver's own; the names here are mlx5's, which others share.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from collectors.interface import guard, host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family
from collectors.shared import attributes, sysfs
from collectors.shared.formats.numerals import parse_float, parse_uint
from collectors.shared.formats.patterns import DeviceFilter, regexp
from plimsoll.flags import option

_CLASS = "<sysfs>/class/infiniband"
# File below the port's directory, the metric's name after node_infiniband_, its HELP.
# fmt: off
_STATES = (
    ("state", "state_id", "State of the InfiniBand port (0: no change, 1: down, 2: init, 3: armed, 4: active, 5: act defer)"),
    ("phys_state", "physical_state_id", "Physical state of the InfiniBand port (0: no change, 1: sleep, 2: polling, 3: disable, 4: shift, 5: link up, 6: link error recover, 7: phytest)"),
    ("rate", "rate_bytes_per_second", "Maximum signal transfer rate"),
)
_COUNTERS = (
    ("counters_ext/port_multicast_rcv_packets", "legacy_multicast_packets_received_total", "Number of multicast packets received"),
    ("counters_ext/port_multicast_xmit_packets", "legacy_multicast_packets_transmitted_total", "Number of multicast packets transmitted"),
    ("counters_ext/port_rcv_data_64", "legacy_data_received_bytes_total", "Number of data octets received on all links"),
    ("counters_ext/port_rcv_packets_64", "legacy_packets_received_total", "Number of data packets received on all links"),
    ("counters_ext/port_unicast_rcv_packets", "legacy_unicast_packets_received_total", "Number of unicast packets received"),
    ("counters_ext/port_unicast_xmit_packets", "legacy_unicast_packets_transmitted_total", "Number of unicast packets transmitted"),
    ("counters_ext/port_xmit_data_64", "legacy_data_transmitted_bytes_total", "Number of data octets transmitted on all links"),
    ("counters_ext/port_xmit_packets_64", "legacy_packets_transmitted_total", "Number of data packets received on all links"),
    ("counters/excessive_buffer_overrun_errors", "excessive_buffer_overrun_errors_total", "Number of times that OverrunErrors consecutive flow control update periods occurred, each having at least one overrun error."),
    ("counters/link_downed", "link_downed_total", "Number of times the link failed to recover from an error state and went down"),
    ("counters/link_error_recovery", "link_error_recovery_total", "Number of times the link successfully recovered from an error state"),
    ("counters/local_link_integrity_errors", "local_link_integrity_errors_total", "Number of times that the count of local physical errors exceeded the threshold specified by LocalPhyErrors."),
    ("counters/multicast_rcv_packets", "multicast_packets_received_total", "Number of multicast packets received (including errors)"),
    ("counters/multicast_xmit_packets", "multicast_packets_transmitted_total", "Number of multicast packets transmitted (including errors)"),
    ("counters/port_rcv_constraint_errors", "port_constraint_errors_received_total", "Number of packets received on the switch physical port that are discarded"),
    ("counters/port_xmit_constraint_errors", "port_constraint_errors_transmitted_total", "Number of packets not transmitted from the switch physical port"),
    ("counters/port_rcv_data", "port_data_received_bytes_total", "Number of data octets received on all links"),
    ("counters/port_xmit_data", "port_data_transmitted_bytes_total", "Number of data octets transmitted on all links"),
    ("counters/port_rcv_discards", "port_discards_received_total", "Number of inbound packets discarded by the port because the port is down or congested"),
    ("counters/port_xmit_discards", "port_discards_transmitted_total", "Number of outbound packets discarded by the port because the port is down or congested"),
    ("counters/port_rcv_errors", "port_errors_received_total", "Number of packets containing an error that were received on this port"),
    ("counters/port_rcv_packets", "port_packets_received_total", "Number of packets received on all VLs by this port (including errors)"),
    ("counters/port_xmit_packets", "port_packets_transmitted_total", "Number of packets transmitted on all VLs from this port (including errors)"),
    ("counters/port_xmit_wait", "port_transmit_wait_total", "Number of ticks during which the port had data to transmit but no data was sent during the entire tick"),
    ("counters/unicast_rcv_packets", "unicast_packets_received_total", "Number of unicast packets received (including errors)"),
    ("counters/unicast_xmit_packets", "unicast_packets_transmitted_total", "Number of unicast packets transmitted (including errors)"),
    ("counters/port_rcv_remote_physical_errors", "port_receive_remote_physical_errors_total", "Number of packets marked with the EBP (End of Bad Packet) delimiter received on the port."),
    ("counters/port_rcv_switch_relay_errors", "port_receive_switch_relay_errors_total", "Number of packets that could not be forwarded by the switch."),
    ("counters/symbol_error", "symbol_error_total", "Number of minor link errors detected on one or more physical lanes."),
    ("counters/VL15_dropped", "vl15_dropped_total", "Number of incoming VL15 packets dropped due to resource limitations."),
    ("hw_counters/lifespan", "lifespan_seconds", "The maximum period in ms which defines the aging of the counter reads. Two consecutive reads within this period might return the same values."),
    ("hw_counters/duplicate_request", "duplicate_requests_packets_total", "The number of received packets. A duplicate request is a request that had been previously executed."),
    ("hw_counters/implied_nak_seq_err", "implied_nak_seq_errors_total", "The number of time the requested decided an ACK. with a PSN larger than the expected PSN for an RDMA read or response."),
    ("hw_counters/local_ack_timeout_err", "local_ack_timeout_errors_total", "The number of times QP's ack timer expired for RC, XRC, DCT QPs at the sender side. The QP retry limit was not exceed, therefore it is still recoverable error."),
    ("hw_counters/np_cnp_sent", "np_cnp_packets_sent_total", "The number of CNP packets sent by the Notification Point when it noticed congestion experienced in the RoCEv2 IP header (ECN bits). The counters was added in MLNX_OFED 4.1"),
    ("hw_counters/np_ecn_marked_roce_packets", "np_ecn_marked_roce_packets_received_total", "The number of RoCEv2 packets received by the notification point which were marked for experiencing the congestion (ECN bits where '11' on the ingress RoCE traffic) . The counters was added in MLNX_OFED 4.1"),
    ("hw_counters/out_of_buffer", "out_of_buffer_drops_total", "The number of drops occurred due to lack of WQE for the associated QPs."),
    ("hw_counters/out_of_sequence", "out_of_sequence_packets_received_total", "The number of out of sequence packets received."),
    ("hw_counters/packet_seq_err", "packet_sequence_errors_total", "The number of received NAK sequence error packets. The QP retry limit was not exceeded."),
    ("hw_counters/req_cqe_error", "req_cqes_errors_total", "The number of times requester detected CQEs completed with errors. The counters was added in MLNX_OFED 4.1"),
    ("hw_counters/req_cqe_flush_error", "req_cqes_flush_errors_total", "The number of times requester detected CQEs completed with flushed errors. The counters was added in MLNX_OFED 4.1"),
    ("hw_counters/req_remote_access_errors", "req_remote_access_errors_total", "The number of times requester detected remote access errors. The counters was added in MLNX_OFED 4.1"),
    ("hw_counters/req_remote_invalid_request", "req_remote_invalid_request_errors_total", "The number of times requester detected remote invalid request errors. The counters was added in MLNX_OFED 4.1"),
    ("hw_counters/resp_cqe_error", "resp_cqes_errors_total", "The number of times responder detected CQEs completed with errors. The counters was added in MLNX_OFED 4.1"),
    ("hw_counters/resp_cqe_flush_error", "resp_cqes_flush_errors_total", "The number of times responder detected CQEs completed with flushed errors. The counters was added in MLNX_OFED 4.1"),
    ("hw_counters/resp_local_length_error", "resp_local_length_errors_total", "The number of times responder detected local length errors. The counters was added in MLNX_OFED 4.1"),
    ("hw_counters/resp_remote_access_errors", "resp_remote_access_errors_total", "The number of times responder detected remote access errors. The counters was added in MLNX_OFED 4.1"),
    ("hw_counters/rnr_nak_retry_err", "rnr_nak_retry_packets_received_total", "The number of received RNR NAK packets. The QP retry limit was not exceeded."),
    ("hw_counters/roce_adp_retrans", "roce_adp_retransmits_total", "The number of adaptive retransmissions for RoCE traffic. The counter was added in MLNX_OFED rev 5.0-1.0.0.0 and kernel v5.6.0"),
    ("hw_counters/roce_adp_retrans_to", "roce_adp_retransmits_timeout_total", "The number of times RoCE traffic reached timeout due to adaptive retransmission. The counter was added in MLNX_OFED rev 5.0-1.0.0.0 and kernel v5.6.0"),
    ("hw_counters/roce_slow_restart", "roce_slow_restart_used_total", "The number of times RoCE slow restart was used. The counter was added in MLNX_OFED rev 5.0-1.0.0.0 and kernel v5.6.0"),
    ("hw_counters/roce_slow_restart_cnps", "roce_slow_restart_cnps_total", "The number of times RoCE slow restart generated CNP packets. The counter was added in MLNX_OFED rev 5.0-1.0.0.0 and kernel v5.6.0"),
    ("hw_counters/roce_slow_restart_trans", "roce_slow_restart_total", "The number of times RoCE slow restart changed state to slow restart. The counter was added in MLNX_OFED rev 5.0-1.0.0.0 and kernel v5.6.0"),
    ("hw_counters/rp_cnp_handled", "rp_cnp_packets_handled_total", "The number of CNP packets handled by the Reaction Point HCA to throttle the transmission rate. The counters was added in MLNX_OFED 4.1"),
    ("hw_counters/rp_cnp_ignored", "rp_cnp_ignored_packets_received_total", "The number of CNP packets received and ignored by the Reaction Point HCA. This counter should not raise if RoCE Congestion Control was enabled in the network. If this counter raise, verify that ECN was enabled on the adapter."),
    ("hw_counters/rx_atomic_requests", "rx_atomic_requests_total", "The number of received ATOMIC request for the associated QPs."),
    ("hw_counters/rx_dct_connect", "rx_dct_connect_requests_total", "The number of received connection requests for the associated DCTs."),
    ("hw_counters/rx_read_requests", "rx_read_requests_total", "The number of received READ requests for the associated QPs."),
    ("hw_counters/rx_write_requests", "rx_write_requests_total", "The number of received WRITE requests for the associated QPs."),
    ("hw_counters/rx_icrc_encapsulated", "rx_icrc_encapsulated_errors_total", "The number of RoCE packets with ICRC errors. This counter was added in MLNX_OFED 4.4 and kernel 4.19"),
)
# fmt: on
METRICS = Table(
    Metric(
        "node_infiniband_info",
        "gauge",
        "Non-numeric data from /sys/class/infiniband/<device>, value is always 1.",
        f"{_CLASS}/*",
        ("board_id", "device", "firmware_version", "hca_type"),
    ),
    *(
        Metric(
            f"node_infiniband_{name}",
            "counter" if name.endswith("_total") else "gauge",
            about,
            f"{_CLASS}/*/ports/*/{file}",
            ("device", "port"),
            next((u for u in ("bytes", "seconds") if name.removesuffix("_total").endswith(u)), ""),
        )
        for file, name, about in (*_STATES, *_COUNTERS)
    ),
)

_NAMES = {file: f"node_infiniband_{name}" for file, name, _ in (*_STATES, *_COUNTERS)}
_FOLDERS = ("", "counters", "counters_ext", "hw_counters")
_INFO = ("board_id", "fw_ver", "hca_type")
_GIGABIT = 125_000_000  # in bytes
# The hardware counts 32-bit words, whatever the number of lanes.
_IN_WORDS = frozenset(name for name in _NAMES if "_data" in name)


class Port(NamedTuple):
    """A port and its known files, by folder."""

    number: str
    directory: str
    files: Mapping[str, Sequence[str]]


class Adapter(NamedTuple):
    """An entry of the class."""

    device: str
    directory: str
    ports: Sequence[Port]


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of this collector."""

    infiniband_device_include: str = option(
        "collector.infiniband.device-include",
        "",
        "read only devices whose name matches",
        metavar="REGEXP",
        parse=regexp,
    )
    infiniband_device_exclude: str = option(
        "collector.infiniband.device-exclude",
        "",
        "leave out devices whose name matches",
        metavar="REGEXP",
        parse=regexp,
    )


def parse(file: str, text: str) -> float | None:
    """Return the value of a port's file; None if firmware has none (`N/A (no PMA)`)."""
    if text.startswith("N/A"):
        return None
    try:
        if file in {"state", "phys_state"}:  # 4: ACTIVE
            return float(parse_uint(text.partition(":")[0]))
        if file == "rate":  # 2.5 Gb/sec (1X SDR)
            return parse_float(text.partition(" ")[0]) * _GIGABIT
        value = parse_uint(text)
    except ValueError as error:
        raise CollectorError(f"infiniband: {file}: {error}") from error
    if file == "hw_counters/lifespan":
        return value / 1000
    return float(value * 4 if file in _IN_WORDS else value)


class InfiniBand:
    """The `infiniband` collector."""

    def __init__(self, machine: host.Host, options: Options) -> None:
        self._directory = machine.sysfs / "class/infiniband"
        self._filter = DeviceFilter(
            options.infiniband_device_include, options.infiniband_device_exclude
        )
        self._adapters = sysfs.Derived(self._find, self._directory)

    def collect(self) -> Iterator[Family]:
        """Read the source now."""
        adapters = self._adapters.get()
        rows: dict[str, list[tuple[tuple[str, str], float]]] = {file: [] for file in _NAMES}
        for adapter in adapters:
            for port in adapter.ports:
                for file, text in _texts(port):
                    try:
                        value = parse(file, text)
                    except CollectorError as error:
                        guard.skip(error, _NAMES[file])
                        continue
                    if value is not None:
                        rows[file].append(((adapter.device, port.number), value))
        yield METRICS.family(
            "node_infiniband_info", ((_info(adapter), 1.0) for adapter in adapters)
        )
        for file, samples in rows.items():
            yield METRICS.family(_NAMES[file], samples)

    def _find(self, listings: Sequence[sysfs.Listing]) -> list[Adapter]:
        return [
            Adapter(device, directory, _ports(f"{directory}/ports"))
            for device in listings[0]
            if not self._filter.ignores(device)
            for directory in (f"{self._directory}/{device}",)
        ]


def _ports(directory: str) -> list[Port]:
    return [
        Port(number, f"{directory}/{number}", _known_files(f"{directory}/{number}"))
        for number in sysfs.listing_optional(directory)
    ]


def _known_files(port: str) -> dict[str, list[str]]:
    """Return files by folder; the port's own directory has an empty name."""
    listings = {folder: sysfs.listing_optional(f"{port}/{folder}") for folder in _FOLDERS}
    return {
        folder: [name for name in listing if os.path.join(folder, name) in _NAMES]  # noqa: PTH118
        for folder, listing in listings.items()
    }


def _texts(port: Port) -> Iterator[tuple[str, str]]:
    for folder, names in port.files.items():
        texts = attributes.read_optional(f"{port.directory}/{folder}", names)
        for name, text in (texts or {}).items():
            yield os.path.join(folder, name), text  # noqa: PTH118


def _info(adapter: Adapter) -> tuple[str, str, str, str]:
    texts = attributes.read_optional(adapter.directory, _INFO) or {}
    board, firmware, kind = (texts.get(name, "") for name in _INFO)
    return board, adapter.device, firmware, kind


ENTRY = Entry(build=InfiniBand, metrics=METRICS, about="InfiniBand and RoCE ports", options=Options)
