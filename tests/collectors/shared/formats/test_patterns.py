import pytest

from collectors.shared.formats.patterns import DeviceFilter


@pytest.mark.parametrize(
    ("include", "exclude", "left"),
    [
        ("", "", ["lo", "eth0", "veth12"]),
        ("eth", "", ["eth0", "veth12"]),
        ("^eth", "", ["eth0"]),
        ("", "^(lo|veth.*)$", ["eth0"]),
        ("eth", "^veth", ["eth0"]),
    ],
)
def test_expression_may_match_anywhere_in_the_name(
    include: str, exclude: str, left: list[str]
) -> None:
    devices = DeviceFilter(include, exclude)
    assert [name for name in ("lo", "eth0", "veth12") if not devices.ignores(name)] == left
