import pytest

from plimsoll.http.addresses import Address, parse, parse_peer


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":9100", Address("", 9100)),
        ("127.0.0.1:0", Address("127.0.0.1", 0)),
        ("[::]:9100", Address("::", 9100)),
        ("[fe80::1%eth0]:1", Address("fe80::1%eth0", 1)),
        ("node-a.example:65535", Address("node-a.example", 65535)),
    ],
)
def test_address_is_parsed_and_formatted(text: str, address: Address) -> None:
    assert parse(text) == address
    assert str(address) == text


@pytest.mark.parametrize("text", ["", "9100", "::1:9100", "[::1]", "[::1:9100", "a b:1", "host:"])
def test_invalid_address_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"not an address|not a port"):
        parse(text)


@pytest.mark.parametrize("text", [":http", ":70000", ":-1"])
def test_invalid_port_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="not a port"):
        parse(text)


def test_peer_has_a_host_and_a_port() -> None:
    assert parse_peer("") == ""
    assert parse_peer("evaluator:9091") == "evaluator:9091"
    for text in (":9091", "evaluator:0"):
        with pytest.raises(ValueError, match="to connect to"):
            parse_peer(text)
