"""Mutated inputs: bytes flipped, cut or repeated; JSON with parts lost, duplicated, renamed or enlarged."""

import json
import random

FRAGMENTS = (
    b"", b"\0", b"\xff", b"\xc3\x28", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\r\n", b"\n", b"\x1b[2J", b"\\u0000", b"\\ud800",
    b"null", b"true", b"{}", b"[]", b'""', b"-0", b"1e999", b"-1e-999", b"9" * 40, b"9" * 400, b"NaN", b"Infinity", b"0x10",
    b"[" * 50, b'{"a":' * 50, b"1_000", b"\xc2\xb2", b"\xe2\x80\xa8", b"&a [*a]", b"*a", b"!!timestamp x", b"!!int ''",
    b"<<: ", b"? ", b"- ", b": ", b"# ", b"---\n", b"...\n", b"%YAML 9\n", b"|", b">", b"'", b'"', b"\\", b",", b"}", b"]",
)  # fmt: skip

LONGEST = 20_000
"""Maximum bytes: cost is tested elsewhere."""

TEXTS = (
    "", " ", "\0", "\n", "a\nlevel=error msg=forged", "\x1b[31m", "é", "\u2028", "😀", "\ud800", "a" * 300, "x" * 5000,
    "../../etc/passwd", "node-a", "{}", "%s%n", "1e3", "-1", "Ki", "NaN", "violating", "²", "0" * 5000, "5" * 5000 + "s",
)  # fmt: skip

VALUES = (
    None, True, False, 0, -1, 2**31, 2**53 + 1, 2**64, 10**400, 0.1, 1e308, -1e-308, {}, [], [None], {"": None}, [[]],
    {"a": {"b": {"c": []}}}, ["a", "a"], [{}, {}],
)  # fmt: skip


def mutate(seed: bytes, rng: random.Random) -> bytes:
    """A mutation of this input, small or large."""
    data = seed
    if rng.random() < 0.6:
        data = _reshaped(data, rng)
    if rng.random() < 0.5:
        data = _damaged(data, rng)
    return data[:LONGEST]


def _damaged(data: bytes, rng: random.Random) -> bytes:
    """Change, add or remove some bytes."""
    raw = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 16))):
        at = rng.randrange(len(raw) + 1)
        to = min(len(raw), at + rng.choice((1, 1, 2, 8, 64)))
        match rng.randrange(6):
            case 0 if at < len(raw):
                raw[at] ^= 1 << rng.randrange(8)
            case 1:
                raw[at:at] = rng.choice(FRAGMENTS)
            case 2:
                del raw[at:to]
            case 3:
                raw[at:at] = raw[at:to] * rng.choice((1, 2, 20))
            case 4:
                raw[at:to] = rng.choice(FRAGMENTS)
            case 5 if rng.random() < 0.2:
                del raw[at:]
            case _:
                raw[at:at] = rng.randbytes(rng.choice((1, 2, 8)))
    return bytes(raw)


def _reshaped(data: bytes, rng: random.Random) -> bytes:
    """Change the shape of JSON; other input is unchanged."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return data
    for _ in range(rng.choice((1, 1, 2, 4))):
        found = _changed(found, rng)
    return _spelled(found, rng).encode("utf-8", "surrogatepass")


def _changed(found: object, rng: random.Random) -> object:
    """Change a part of a value: itself or one below."""
    if isinstance(found, dict) and found and rng.random() < 0.85:
        key = rng.choice(list(found))
        return {k: _changed(v, rng) if k == key else v for k, v in found.items()}
    if isinstance(found, list) and found and rng.random() < 0.8:
        at = rng.randrange(len(found))
        return [_changed(v, rng) if i == at else v for i, v in enumerate(found)]
    match rng.randrange(7):
        case 0:
            return rng.choice(VALUES)
        case 1:
            return rng.choice(TEXTS)
        case 2 if isinstance(found, dict) and found:
            lost = rng.choice(list(found))
            return {k: v for k, v in found.items() if k != lost}
        case 3 if isinstance(found, dict) and found:
            renamed = rng.choice(list(found))
            other = rng.choice((renamed.upper(), renamed.lower(), *TEXTS[:8]))
            return {other if k == renamed else k: v for k, v in found.items()}
        case 4 if isinstance(found, list):
            return found * rng.choice((0, 2, 10))
        case 5:
            return [found, found]
        case _:
            return {rng.choice(TEXTS): found}


def _spelled(found: object, rng: random.Random) -> str:
    """JSON text in a random spelling; sometimes with a duplicate key."""
    text = json.dumps(
        found,
        ensure_ascii=rng.random() < 0.5,
        indent=rng.choice((None, None, 1)),
        separators=rng.choice((None, (",", ":"))),
    )
    if isinstance(found, dict) and found and rng.random() < 0.1:
        key = json.dumps(rng.choice(list(found)))
        return f"{{{key}:{json.dumps(rng.choice(VALUES))},{text[1:]}"
    return text
