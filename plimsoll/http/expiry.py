"""When certificates expire: the end of the validity of X.509 certificates in PEM, which the module ssl does not return.

The encoding is DER (ITU-T X.690); the order of fields is that of RFC 5280, section 4.1. Pure.
"""

import binascii
import calendar
import re
import ssl
import time
from collections.abc import Iterator

_BLOCK = re.compile(r"-----BEGIN CERTIFICATE-----.{1,100000}?-----END CERTIFICATE-----", re.DOTALL)
_MOST = 1000
"""Certificates of a file that are read."""
_VERSION, _UTC_TIME, _GENERALIZED_TIME = 0xA0, 0x17, 0x18
_BEFORE_VALIDITY = 3
"""Fields between version and validity: serial number, algorithm and issuer."""
_PIVOT = 50
"""Two-digit years from here on are of the 20th century."""
_LONG, _LENGTH = 0x80, 0x7F
"""The bit of a length that has bytes of its own, and the bits with their number."""


def ends(pem: str) -> Iterator[float]:
    """Yield when each certificate of a text in PEM expires (Unix seconds); skip what is no certificate."""
    for number, block in enumerate(_BLOCK.finditer(pem)):
        if number >= _MOST:
            return
        try:
            yield _end(ssl.PEM_cert_to_DER_cert(block[0]))
        except (ValueError, IndexError, binascii.Error):
            continue


def _end(der: bytes) -> float:
    """Return the end of the validity of a certificate. Raises ValueError and IndexError."""
    _, at, _ = _element(der, 0)
    _, at, _ = _element(der, at)
    kind, _, after = _element(der, at)
    if kind == _VERSION:
        at = after
    for _ in range(_BEFORE_VALIDITY):
        _, _, at = _element(der, at)
    _, at, _ = _element(der, at)
    _, _, at = _element(der, at)
    kind, begin, after = _element(der, at)
    return _seconds(kind, der[begin:after].decode("ascii"))


def _element(der: bytes, at: int) -> tuple[int, int, int]:
    """Return the tag of an element, and where its content begins and ends. Raises ValueError and IndexError."""
    kind, length, begin = der[at], der[at + 1], at + 2
    if length & _LONG:
        count = length & _LENGTH
        length, begin = int.from_bytes(der[begin : begin + count], "big"), begin + count
    if begin + length > len(der):
        raise ValueError("an element is longer than the certificate")
    return kind, begin, begin + length


def _seconds(kind: int, text: str) -> float:
    """Return a time as Unix seconds. Raises ValueError."""
    if kind == _UTC_TIME:
        text = f"{'20' if int(text[:2]) < _PIVOT else '19'}{text}"
    elif kind != _GENERALIZED_TIME:
        raise ValueError("it is no time")
    return float(calendar.timegm(time.strptime(text, "%Y%m%d%H%M%SZ")))
