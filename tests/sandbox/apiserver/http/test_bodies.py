"""The protobuf that kubectl create sends; test_kubectl uses the real kubectl."""

import pytest

from sandbox.apiserver.errors import ApiError
from sandbox.apiserver.http.bodies import decode_protobuf


def field(number, value):
    """One protobuf field: a number, or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value & (1 << 64) - 1)
    raw = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def varint(value):
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def body(kind, raw, api_version="v1"):
    return b"k8s\0" + field(1, field(1, api_version) + field(2, kind)) + field(2, raw)


def test_strings_maps_and_numbers_are_decoded():
    label = field(1, "a") + field(2, "b")
    raw = field(1, field(1, "x") + field(7, 0) + field(8, b"") + field(11, label)) + field(2, -5)
    raw += field(3, 0) + field(4, "")
    assert decode_protobuf(body("PriorityClass", raw, "scheduling.k8s.io/v1")) == {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "x", "labels": {"a": "b"}},
        "value": -5,
    }


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        (field(1, 0) + field(2, 0) + field(3, ""), 0),
        (field(1, 0) + field(2, 3) + field(3, ""), 3),
        (field(1, 1) + field(2, 0) + field(3, "50%"), "50%"),
    ],
)
def test_int_or_string_is_decoded(wire, expected):
    found = decode_protobuf(body("PodDisruptionBudget", field(2, field(1, wire)), "policy/v1"))
    assert found["spec"] == {"minAvailable": expected}


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"", 400),
        (b"{}", 400),
        (b"k8s\0", 415),
        (b"k8s\0\x0a\xff", 400),
        (body("Namespace", b"\x0a\x7f"), 400),
        (body("Namespace", b"\x0b"), 400),
        (body("Namespace", field(1, field(1, b"\xff"))), 400),
        (body("Namespace", field(1, 5)), 400),
        (body("Namespace", field(99, "x")), 415),
        (body("Job", b""), 415),
    ],
)
def test_invalid_input_is_rejected(raw, code):
    with pytest.raises(ApiError) as error:
        decode_protobuf(raw)
    assert error.value.code == code
