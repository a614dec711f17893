"""The language that messages are declared in: what it makes of a declaration."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from protocol.errors import EncodeError, ProtocolError, UnsupportedVersion
from protocol.messages.fetch import FetchResponse, LeaderIdAndEpoch, PartitionData
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.schema import (
    Array,
    Bool,
    Bytes,
    Float64,
    Int8,
    Int32,
    Int64,
    Message,
    Nullable,
    Records,
    String,
    Struct,
    UInt16,
    UInt32,
    Uuid,
    field,
    message,
    struct,
)
from protocol.schema.ahead import TREE
from protocol.schema.decoder import decoder_source
from protocol.schema.reference import plain

if TYPE_CHECKING:
    from collections.abc import Callable


@struct
class Inner(Struct):
    """A struct of every fixed size, and one of its own."""

    small: int = field(Int8, default=5)
    port: int = field(UInt16)
    mask: int = field(UInt32)
    ratio: float = field(Float64)
    name: str = field(String, since=1)


@message(versions=(0, 3), flexible_from=2)
class Everything(Message):
    """What Kafka's own T1 messages have no example of, too."""

    flag: bool = field(Bool)
    inner: Inner = field(Inner)
    maybe: Inner | None = field(Nullable(Inner), default=None)
    ids: list[bytes] = field(Array(Uuid))
    words: list[str] | None = field(Array(String), nullable_since=1)
    blobs: list[bytes] = field(Array(Bytes))
    old: int = field(Int64, until=1, default=-1)
    batch: bytes | None = field(Nullable(Records))
    tagged: Inner | None = field(Nullable(Inner), since=2, default=None, tag=0)
    tagged_words: list[str] = field(Array(String), since=2, tag=3)
    moved: int = field(Int32, since=1, tag=1, tag_since=3)  # an ordinary field first, tagged later


def full() -> Everything:
    inner = Inner(small=-1, port=65_535, mask=2**32 - 1, ratio=-0.5, name="n")
    return Everything(
        flag=True,
        inner=inner,
        maybe=inner,
        ids=[b"i" * 16],
        words=["a", ""],
        blobs=[b"", b"blob"],
        old=7,
        batch=b"batch",
        tagged=inner,
        tagged_words=["t"],
        moved=9,
    )


@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize(
    "value", [Everything(), full(), Everything(words=[], batch=None)], ids=["empty", "full", "null"]
)
def test_every_type_goes_there_and_back_as_construct_has_it(version: int, value: Everything) -> None:
    """The types that no message of tier T1 has are held equal to construct here."""
    data = value.encode(version)
    decoded = Everything.decode(version, data)

    assert Everything.schema(version).build(plain(value)) == data
    assert decoded.encode(version) == data
    assert Everything.schema(version).parse(data).flag == value.flag
    assert decoded.old == (value.old if version < 2 else -1)
    assert decoded.moved == (value.moved if version >= 1 else 0)
    assert decoded.tagged == (value.tagged if version >= 2 else None)


def test_a_nullable_struct_is_marked_by_int8_and_if_tagged_by_a_varint() -> None:
    """KIP-893, and what Kafka writes for a tagged one."""

    @message(versions=(0, 0), flexible_from=0)
    class Marked(Message):
        plain: JoinGroupRequestProtocol | None = field(Nullable(JoinGroupRequestProtocol))
        tagged: JoinGroupRequestProtocol | None = field(Nullable(JoinGroupRequestProtocol), tag=0)

    some = JoinGroupRequestProtocol(name="r", metadata=b"m")

    assert Marked(plain=None, tagged=None).encode(0) == b"\xff" + b"\x01" + b"\x00\x01\x00"
    assert Marked(plain=some, tagged=some).encode(0) == b"\x01\x02r\x02m\x00" + b"\x01" + b"\x00\x06\x01\x02r\x02m\x00"
    assert Marked.decode(0, b"\xff\x01\x00\x01\x00") == Marked(plain=None, tagged=None)


def test_defaults_are_kafkas_and_lists_are_ones_own() -> None:
    """A list that was left out is not shared, one that was given is kept."""
    protocols = [JoinGroupRequestProtocol(name="range")]

    assert JoinGroupRequest() == JoinGroupRequest(rebalance_timeout_ms=-1, group_instance_id=None, protocols=[])
    assert JoinGroupRequest().protocols is not JoinGroupRequest().protocols
    assert JoinGroupRequest(protocols=protocols).protocols is protocols


def test_a_struct_that_was_left_out_is_frozen() -> None:
    """It is shared by all messages, so changing it would change them."""
    partition = PartitionData()

    with pytest.raises(AttributeError, match="shared default"):
        partition.current_leader.leader_id = 1

    assert partition.current_leader == LeaderIdAndEpoch() == LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1)
    partition.current_leader = LeaderIdAndEpoch(leader_id=1)
    assert PartitionData().current_leader.leader_id == -1


def test_a_misspelt_field_is_refused() -> None:
    """In the constructor and afterwards."""
    with pytest.raises(TypeError, match="groupid"):
        JoinGroupRequest(groupid="g")
    with pytest.raises(AttributeError):
        JoinGroupRequest().groupid = "g"


def test_messages_compare_and_print_by_their_fields() -> None:
    """And can be changed, so they have no hash."""
    assert JoinGroupRequestProtocol(name="a") != JoinGroupRequestProtocol(name="b")
    assert JoinGroupRequestProtocol(name="a") != "a"
    assert repr(JoinGroupRequestProtocol(name="a")) == "JoinGroupRequestProtocol(name='a', metadata=b'')"
    with pytest.raises(TypeError):
        hash(JoinGroupRequest())


def test_bytes_that_are_left_over_are_refused_or_taken_for_granted() -> None:
    """Requests are answered in spite of them, so the decoder says where it ended."""
    data = JoinGroupRequest(group_id="g").encode(5)

    with pytest.raises(ProtocolError, match="3 bytes left over after JoinGroupRequest v5"):
        JoinGroupRequest.decode(5, data + b"abc")
    assert JoinGroupRequest.decode(5, data + b"abc", strict=False).group_id == "g"
    assert JoinGroupRequest.decoder(5)(b"12" + data + b"abc", 2)[1] == len(data) + 2


def test_any_buffer_is_decoded() -> None:
    """A bytearray or a memoryview is copied once."""
    data = JoinGroupRequest(group_id="g", protocols=[JoinGroupRequestProtocol(metadata=b"m")]).encode(5)

    for buffer in (bytearray(data), memoryview(data)):
        decoded = JoinGroupRequest.decode(5, buffer)
        assert decoded == JoinGroupRequest.decode(5, data)
        assert type(decoded.protocols[0].metadata) is bytes


def test_unknown_tagged_fields_are_skipped() -> None:
    """At the end of the message and of structs in it."""
    request = JoinGroupRequest(group_id="g", protocols=[JoinGroupRequestProtocol(name="p", metadata=b"m")])
    data = request.encode(8)

    assert data.endswith(b"\x02p\x02m\x00" + b"\x00\x00")
    more = data.removesuffix(b"\x00\x00\x00") + b"\x02\x07\x00\x09\x01x" + b"\x00\x01\x80\x01\x02yz"
    assert JoinGroupRequest.decode(8, more) == request


def test_a_tagged_field_whose_size_is_wrong_is_refused() -> None:
    """Its content must end where its size says."""
    data = Everything(moved=9).encode(3)
    assert data.endswith(b"\x01\x01\x04\x00\x00\x00\x09")

    for size in (3, 5):
        with pytest.raises(ProtocolError):
            Everything.decode(3, data[:-5] + bytes([size]) + data[-4:] + b"\x00")


@pytest.mark.parametrize("records", [b"batch", bytearray(b"batch"), memoryview(b"batch"), [b"ba", memoryview(b"tch")]])
@pytest.mark.parametrize("version", [3, 9])
def test_records_are_given_as_they_are_and_come_back_as_a_view_of_the_frame(version: int, records: object) -> None:
    """Neither way is a copy made of them."""
    partition = PartitionProduceData(index=1, records=records)
    request = ProduceRequest(topic_data=[TopicProduceData(name="t", partition_data=[partition])])

    buffers = ProduceRequest.encoder(version)(request)
    for piece in records if isinstance(records, list) else [records]:
        assert any(buffer is piece for buffer in buffers)

    frame = b"".join(buffers)
    decoded = ProduceRequest.decode(version, frame).topic_data[0].partition_data[0].records
    assert decoded == b"batch"
    assert type(decoded) is memoryview
    assert decoded.obj is frame


@pytest.mark.parametrize("version", [3, 9])
def test_records_can_be_null(version: int) -> None:
    """Null and empty stay apart."""
    for records in (None, b"", []):
        partition = PartitionProduceData(records=records)
        data = ProduceRequest(topic_data=[TopicProduceData(partition_data=[partition])]).encode(version)
        decoded = ProduceRequest.decode(version, data).topic_data[0].partition_data[0].records
        assert decoded == (None if records is None else b"")


@pytest.mark.parametrize(
    ("make", "version", "says"),
    [
        (
            lambda: JoinGroupRequest(group_id=None),
            5,
            "JoinGroupRequest v5: group_id is None, and cannot be null in this version",
        ),
        (lambda: JoinGroupRequest(group_id=b"g"), 5, "group_id is b'g', not a string"),
        (lambda: JoinGroupRequest(group_id="x" * 32_768), 5, "group_id has 32768 bytes, more than 32767"),
        (lambda: JoinGroupRequest(group_id="x" * 32_768), 9, "group_id has 32768 bytes, more than 32767"),
        (lambda: JoinGroupRequest(group_id="\ud800"), 9, "group_id is not text"),
        (lambda: JoinGroupRequest(session_timeout_ms=2**31), 0, "session_timeout_ms is 2147483648, not Int32"),
        (lambda: JoinGroupRequest(protocols=None), 0, "protocols is None, and cannot be null in this version"),
        (lambda: JoinGroupRequest(protocols=["range"]), 0, "protocols[0] is 'range', not a JoinGroupRequestProtocol"),
        (
            lambda: JoinGroupRequest(protocols=[JoinGroupRequestProtocol(metadata="m")]),
            6,
            "protocols[0].metadata is 'm', not bytes",
        ),
        (lambda: MetadataResponse(topics=[MetadataResponseTopic(name=None)]), 11, "topics[0].name is None"),
        (
            lambda: MetadataResponse(topics=[MetadataResponseTopic(topic_id=b"short")]),
            12,
            "topics[0].topic_id is b'short'",
        ),
        (lambda: FetchResponse(responses=7), 12, "responses is 7, not a list"),
    ],
    ids=lambda value: None if callable(value) else str(value)[:40],
)
def test_a_value_that_does_not_fit_is_named_with_its_path(make: Callable[[], Message], version: int, says: str) -> None:
    """Our own mistake, so it says exactly where. Native code refuses some when they are given, and the rest as here."""
    try:
        bad = make()
    except TypeError:
        assert TREE == "compiled"
        return

    with pytest.raises(EncodeError) as caught:
        bad.encode(version)

    assert says in str(caught.value)


def test_a_string_longer_than_int16_is_refused_in_flexible_versions_too() -> None:
    """Kafka limits both forms alike; an echo of it in an older version could not be written."""
    data = b"\x81\x80\x02" + b"x" * 32_768

    with pytest.raises(ProtocolError, match="string of 32768 bytes"):
        JoinGroupRequest.decode(6, data)


def test_a_version_that_is_not_declared_is_refused() -> None:
    """For decoding, encoding and the schema."""
    for use in (JoinGroupRequest.decoder, JoinGroupRequest.encoder, JoinGroupRequest.schema):
        for version in (-1, 10):
            with pytest.raises(UnsupportedVersion, match=f"JoinGroupRequest has versions 0-9, not {version}"):
                use(version)


def test_neighbours_of_fixed_size_are_read_at_once() -> None:
    """One unpack for both timeouts and the length that follows them."""
    source = decoder_source(JoinGroupRequest, 5).text()

    assert "m.session_timeout_ms, m.rebalance_timeout_ms, " in source
    assert "unpack_from_iih(buffer, p)" in source


def test_importing_the_messages_brings_neither_construct_nor_compiled_code() -> None:
    """Start-up does not pay for what it does not use."""
    check = (
        "import sys, protocol.frames, protocol.registry as r;"
        "assert 'construct' not in sys.modules;"
        "assert not any(c._decoders or c._encoders for a in r.APIS.values() for c in (a.request, a.response));"
        "assert not any(vars(c).get('__init__') for a in r.APIS.values() for c in (a.request, a.response))"
    )

    subprocess.run([sys.executable, "-c", check], check=True)
