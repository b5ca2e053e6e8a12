import pytest

from collectors.shared.formats.hexadecimals import parse_hex


@pytest.mark.parametrize(
    ("text", "value"), [("0", 0), ("000001f4", 500), ("ffffffffffffffff", 2**64 - 1), ("1F4", 500)]
)
def test_kernel_hexadecimals_are_parsed(text: str, value: int) -> None:
    assert parse_hex(text) == value


@pytest.mark.parametrize(
    "text", ["", "0x1f", "+1f", "-1", "1_f", " 1f", "1f\n", "g", "0" * 17, "\uff11"]
)
def test_other_python_notations_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="not a hexadecimal number"):
        parse_hex(text)
