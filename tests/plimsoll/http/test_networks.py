"""Networks of flags, and which addresses of clients are in them."""

import pytest

from plimsoll.http import networks


@pytest.mark.parametrize(
    ("text", "address", "inside"),
    [
        ("10.0.0.0/8", "10.1.2.3", True),
        ("10.0.0.0/8", "::ffff:10.1.2.3", True),
        ("10.0.0.0/8", "11.1.2.3", False),
        ("10.1.2.3, fd00::/8", "fd00::1", True),
        ("10.1.2.3/24", "10.1.2.9", True),
        ("10.1.2.3", "10.1.2.4", False),
        ("fd00::/8", "10.1.2.3", False),
        ("0.0.0.0/0,::/0", "fe80::1%eth0", True),
        ("0.0.0.0/0", "", False),
        ("", "10.1.2.3", False),
    ],
)
def test_addresses_are_in_networks(text, address, inside):
    assert networks.contains(networks.parse(text), address) == inside


@pytest.mark.parametrize("text", ["10.0.0.0/33", "localhost", "10.0.0.0/8 fd00::/8", "1.2.3"])
def test_other_texts_are_errors_that_say_what_to_write(text):
    with pytest.raises(ValueError, match=r"not a list of networks, such as 10.0.0.0/8,fd00::/8"):
        networks.parse(text)


@pytest.mark.parametrize(
    ("address", "local"),
    [
        ("127.0.0.9", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("10.0.0.1", False),
        ("", False),
    ],
)
def test_loopback(address, local):
    assert networks.is_loopback(address) == local
