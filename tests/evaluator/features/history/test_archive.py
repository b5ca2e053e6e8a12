"""The object with the actions of all replicas: what a leader writes, a reader finds; damage costs itself."""

import base64
import gzip
import hashlib
import json
import zlib

import pytest

from evaluator.features.history.archive import INFO, LARGEST, Archive, StoredAction
from plimsoll.steps import finished

NOW = 1_700_000_000.0
WRITER = "0123456789ab"


def action(sequence, *, writer=WRITER, at=NOW, text="labels: x=y", **fields):
    return StoredAction(writer, sequence, at, "written", node="node-a", text=text, **fields)


def storm(count, begin=1):
    """Actions with texts that do not compress well."""
    texts = (hashlib.sha256(b"%d" % n).hexdigest() for n in range(begin, begin + count))
    return [action(begin + n, text=text) for n, text in enumerate(texts)]


def written(data, archive, actions, *, oldest=0.0):
    """Return the object's data after a leader that has read it added actions."""
    change = finished(archive.change(actions, since=NOW - 60, oldest=oldest))
    return {key: value for key, value in {**data, **change}.items() if value is not None}


def read(archive, data):
    return [one for some in archive.read(data) for one in some]


def packed(data):
    return sum(len(base64.b64decode(value)) for value in data.values())


def chunk(*lines):
    return base64.b64encode(gzip.compress(b"".join(line + b"\n" for line in lines))).decode()


def encoded(**fields):
    return json.dumps({"writer": WRITER, "sequence": 1, "at": NOW, "kind": "written"} | fields).encode()  # fmt: skip


def test_reader_finds_what_leaders_wrote_in_their_order():
    first, second, reader, data = Archive(), Archive(), Archive(), {}
    data = written(data, first, storm(1500))
    read(second, data)
    other = [action(n, writer="ba9876543210", at=NOW - 900) for n in range(1, 4)]
    data = written(data, second, other)
    assert read(reader, data) == [*storm(1500), *other]
    assert reader.info.since == NOW - 60
    assert reader.unreadable == 0


def test_write_changes_only_the_last_chunk():
    archive, data = Archive(), {}
    data = written(data, archive, storm(2000))
    read(archive, data)
    change = finished(archive.change([action(2001)], since=NOW, oldest=0.0))
    assert [*change] == [max(key for key in data if key != INFO)]
    reader = Archive()
    read(reader, data)
    assert read(reader, {**data, **change})[-1] == action(2001)


def test_oldest_chunks_are_left_out_first_and_counted():
    archive, data = Archive(), {}
    for turn in range(40):
        data = written(data, archive, storm(1000, 1 + 1000 * turn))
        read(archive, data)
        assert packed(data) <= LARGEST + 1_000
    found = read(reader := Archive(), data)
    assert found[-1].sequence == 40_000
    assert [one.sequence for one in found] == [*range(found[0].sequence, 40_001)]
    assert reader.info.left_out == found[0].sequence - 1 > 0
    assert reader.info.since == NOW


def test_storm_larger_than_the_object_keeps_the_newest():
    data = written({}, Archive(), storm(40_000))
    assert packed(data) <= LARGEST + 1_000
    assert read(Archive(), data)[-1].sequence == 40_000


def test_old_chunks_are_removed():
    archive = Archive()
    data = written({}, archive, [action(n, at=NOW - 90_000, text="z" * 900) for n in range(1, 200)])
    read(archive, data)
    data = written(data, archive, storm(3), oldest=NOW - 86_400)
    read(archive, data)
    data = written(data, archive, storm(1, 4), oldest=NOW - 86_400)
    kept = read(reader := Archive(), data)
    assert [one.sequence for one in kept if one.at == NOW] == [1, 2, 3, 4]
    assert reader.info.left_out == 0  # as promised, not for want of room
    assert NOW - 90_000 <= reader.info.since <= NOW


@pytest.mark.parametrize(
    ("value", "readable"),
    [
        ("not base64!", 0),
        (base64.b64encode(b"not gzip").decode(), 0),
        (base64.b64encode(gzip.compress(b"")).decode(), 0),
        (chunk(b"{", b"[1]", b'"x"', encoded(), b"\xff\xfe"), 1),
        (chunk(*[b"[" * 100_000], encoded()), 1),
        (chunk(encoded(writer="../../etc")), 0),
        (chunk(encoded(sequence=-1), encoded(sequence=1.5), encoded(sequence=2**80)), 0),
        (chunk(encoded(at="today"), encoded(at=1e300), encoded(at=-1), encoded(at=None)), 0),
        (
            chunk(encoded(policy="no-namespace"), encoded(policy=["a"]), encoded(node="n" * 9_999)),
            0,
        ),
        (base64.b64encode(gzip.compress(b"\n" * (1 << 26))).decode(), 0),
        (base64.b64encode(gzip.compress(encoded(text="x" * (1 << 26)))).decode(), 0),
    ],
    ids=[
        "base64",
        "gzip",
        "empty",
        "lines",
        "deep",
        "writer",
        "sequences",
        "times",
        "names",
        "lines without end",
        "bomb",
    ],
)
def test_damaged_chunk_costs_itself(value, readable):
    archive = Archive()
    data = {**written({}, archive, storm(5)), "actions-000000000002": value}
    found = read(archive, data)
    assert len(found) == 5 + readable
    assert archive.unreadable > 0
    data = written(data, archive, storm(1, 6))
    assert read(Archive(), data)[-1] == storm(1, 6)[0]


def test_truncated_chunk_is_read_up_to_where_it_ends():
    data = written({}, Archive(), storm(300))
    [key] = [key for key in data if key != INFO]
    whole = base64.b64decode(data[key])
    data[key] = base64.b64encode(whole[: len(whole) // 2]).decode()
    found = read(archive := Archive(), data)
    assert found == storm(len(found))
    assert 50 < len(found) < 300
    assert archive.unreadable == 1


def test_keys_of_others_are_removed_at_the_next_write():
    archive = Archive()
    odd = {"x": "eA==", "actions-1": "eA==", "actions-999999999999": "eA==", INFO: "e30="}
    read(archive, odd)
    data = written(odd, archive, storm(1))
    assert {*data} == {INFO, "actions-000000000001"}
    assert read(Archive(), data) == storm(1)


@pytest.mark.parametrize(
    "info", [b"{", b'{"since":1e400}', b'{"since":"x"}', b'{"since":-1e99,"leftOut":-3}']
)
def test_unreadable_info_keeps_what_was_known(info):
    archive = Archive()
    data = written({}, archive, storm(1))
    read(archive, data)
    read(archive, {**data, INFO: base64.b64encode(info).decode()})
    assert archive.info.since == NOW - 60


def test_chunk_whose_successors_are_gone_is_not_written_over():
    """Someone deleted the newest chunks: the lines that are known are not those of the last one."""
    archive = Archive()
    data = written({}, archive, storm(2000))
    read(archive, data)
    del data[max(key for key in data if key != INFO)]
    left = read(Archive(), data)
    read(archive, data)
    data = written(data, archive, [action(2001)])
    assert read(Archive(), data) == [*left, action(2001)]


def test_steps_are_small():
    """Neither a full object nor a bomb is read in one step: each yields at most 50 actions."""
    data = written({}, Archive(), storm(20_000))
    assert max(len(some) for some in Archive().read(data)) <= 50
    bombs = {f"actions-{n:012d}": chunk(b"\n" * 250_000) for n in range(1, 50)}
    archive = Archive()
    assert sum(1 for _ in archive.read(bombs)) < 100_000 / 50 + 200


def test_data_is_gzip(tmp_path):
    """`base64 -d | gunzip` shows a chunk."""
    data = written({}, Archive(), storm(1))
    text = zlib.decompress(base64.b64decode(data["actions-000000000001"]), wbits=31)
    assert json.loads(text)["node"] == "node-a"
