"""Networks of flags, `10.0.0.0/8,fd00::/8`, and the addresses of clients."""

import ipaddress

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Networks = frozenset[Network]


def parse(text: str) -> Networks:
    """Return the networks in a comma-separated list; an address alone is a network of one. Raises ValueError."""
    try:
        return frozenset(
            ipaddress.ip_network(part.strip(), strict=False)
            for part in text.split(",")
            if part.strip()
        )
    except ValueError as error:
        raise ValueError(f"not a list of networks, such as 10.0.0.0/8,fd00::/8: {error}") from error


def address_of(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address of a client, IPv4 also where a socket writes it as IPv6; None if the text is none."""
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found


def is_loopback(text: str) -> bool:
    """Return whether the address of a client is one of this machine or pod, as behind `kubectl port-forward`."""
    found = address_of(text)
    return found is not None and found.is_loopback


def contains(networks: Networks, text: str) -> bool:
    """Return whether the address of a client is in one of these networks."""
    found = address_of(text)
    return found is not None and any(found in network for network in networks)
