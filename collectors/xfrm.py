"""Errors of IPsec transformations, from <procfs>/net/xfrm_stat."""

from collections.abc import Iterator

from collectors.interface import guard, host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import Family
from collectors.shared import netroot
from collectors.shared.formats.numerals import parse_uint

# Key after Xfrm, the metric's name between node_xfrm_ and _packets_total, its HELP.
# fmt: off
_COUNTERS = (
    ("InError", "in_error", "All errors not matched by other"),
    ("InBufferError", "in_buffer_error", "No buffer is left"),
    ("InHdrError", "in_hdr_error", "Header error"),
    ("InNoStates", "in_no_states", "No state is found i.e. Either inbound SPI, address, or IPsec protocol at SA is wrong"),
    ("InStateProtoError", "in_state_proto_error", "Transformation protocol specific error e.g. SA key is wrong"),
    ("InStateModeError", "in_state_mode_error", "Transformation mode specific error"),
    ("InStateSeqError", "in_state_seq_error", "Sequence error i.e. Sequence number is out of window"),
    ("InStateExpired", "in_state_expired", "State is expired"),
    ("InStateMismatch", "in_state_mismatch", "State has mismatch option e.g. UDP encapsulation type is mismatch"),
    ("InStateInvalid", "in_state_invalid", "State is invalid"),
    ("InTmplMismatch", "in_tmpl_mismatch", "No matching template for states e.g. Inbound SAs are correct but SP rule is wrong"),
    ("InNoPols", "in_no_pols", "No policy is found for states e.g. Inbound SAs are correct but no SP is found"),
    ("InPolBlock", "in_pol_block", "Policy discards"),
    ("InPolError", "in_pol_error", "Policy error"),
    ("OutError", "out_error", "All errors which is not matched others"),
    ("OutBundleGenError", "out_bundle_gen_error", "Bundle generation error"),
    ("OutBundleCheckError", "out_bundle_check_error", "Bundle check error"),
    ("OutNoStates", "out_no_states", "No state is found"),
    ("OutStateProtoError", "out_state_proto_error", "Transformation protocol specific error"),
    ("OutStateModeError", "out_state_mode_error", "Transformation mode specific error"),
    ("OutStateSeqError", "out_state_seq_error", "Sequence error i.e. Sequence number overflow"),
    ("OutStateExpired", "out_state_expired", "State is expired"),
    ("OutPolBlock", "out_pol_block", "Policy discards"),
    ("OutPolDead", "out_pol_dead", "Policy is dead"),
    ("OutPolError", "out_pol_error", "Policy error"),
    ("FwdHdrError", "fwd_hdr_error", "Forward routing of a packet is not allowed"),
    ("OutStateInvalid", "out_state_invalid", "State is invalid, perhaps expired"),
    ("AcquireError", "acquire_error", "State hasn\N{RIGHT SINGLE QUOTATION MARK}t been fully acquired before use"),
)
# fmt: on
METRICS = Table(
    *(
        Metric(f"node_xfrm_{name}_packets_total", "counter", about, "<procfs>/1/net/xfrm_stat")
        for _, name, about in _COUNTERS
    )
)
_NAMES = {f"Xfrm{key}": f"node_xfrm_{name}_packets_total" for key, name, _ in _COUNTERS}


@guard.some
def parse(text: str) -> Iterator[Family]:
    """Yield the counters of this kernel that node_exporter has too."""
    words = (line.split() for line in text.splitlines())
    by_name = {pair[0]: pair[1] for pair in words if len(pair) == 2 and pair[0] in _NAMES}
    for key, number in by_name.items():
        try:
            yield METRICS.single(_NAMES[key], float(parse_uint(number)))
        except ValueError as error:
            guard.skip(f"xfrm_stat: {key} {error}", _NAMES[key])


class Xfrm:
    """The `xfrm` collector."""

    def __init__(self, machine: host.Host) -> None:
        self._path = netroot.directory(machine) / "xfrm_stat"

    def collect(self) -> Iterator[Family]:
        """Read the source now."""
        return parse(host.read(self._path))


ENTRY = Entry(build=lambda host, _: Xfrm(host), metrics=METRICS, about="errors of IPsec", on=False)
