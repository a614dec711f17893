"""The codecs that are written ahead for the compiled tree against those that the broker compiles when it runs."""

from __future__ import annotations

import importlib
import random
import sys
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from protocol.errors import EncodeError, LongMessage, ProtocolError
from protocol.frames import has_tagged_header
from protocol.registry import APIS
from protocol.schema.decoder import compile_decoder, decoder_source
from protocol.schema.encoder import compile_frame_encoder, encoder_source
from tests.protocol.test_mutilated_bytes import mutilated
from tests.protocol.values import attributes, samples
from tools.compiled import codecs
from tools.compiled.codecs import HOT, RECORDS
from tools.compiled.runtime import native_codecs

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol.registry import Api
    from protocol.schema import Message

pytestmark = pytest.mark.usefixtures("parser_alone")

HOT_APIS = [api for api in APIS.values() if api.request.__module__.rpartition(".")[2] in HOT]
MOST = 20
every_hot_api = pytest.mark.parametrize("api", HOT_APIS, ids=lambda api: api.name)
every_record = pytest.mark.parametrize(
    ("name", "cls"),
    [(name, getattr(importlib.import_module(f"protocol.records.{name}"), value)) for name, value in RECORDS.items()],
)


def served(api: Api) -> range:
    return range(api.served[0], api.served[1] + 1)


@pytest.fixture
def native(monkeypatch: pytest.MonkeyPatch) -> None:
    """What codecs call that are written ahead."""
    monkeypatch.setitem(sys.modules, "protocol.schema.native_codecs", native_codecs)


@pytest.fixture
def written(native: None) -> Callable[[Api], ModuleType]:
    """An API's module of codecs, run as it is written."""

    def load(api: Api) -> ModuleType:
        module = ModuleType(api.name)
        text = codecs.module(api, served(api), (MOST, MOST), has_tagged_header)
        exec(compile(text, f"<codecs of {api.name}>", "exec"), module.__dict__)
        return module

    return load


@every_hot_api
def test_requests_are_read_alike(api: Api, written: Callable[[Api], ModuleType]) -> None:
    """The same message, or refused in the same words: whole, cut off, and with bytes changed."""
    module = written(api)
    for version in served(api):
        declared = compile_decoder(api.request, version, MOST)
        ahead = getattr(module, f"decode_{api.request.__name__}_{version}")
        rng = random.Random(f"{api.name} v{version}")
        for message in samples(api.request, version, 4):
            data = message.encode(version)
            cuts = [data[: rng.randrange(len(data) + 1)] for _ in range(4)]
            for frame in (data, data + b"more", *cuts, *(mutilated(rng, data) for _ in range(8))):
                assert verdict(ahead, frame) == verdict(declared, frame), (version, frame.hex())


@every_hot_api
def test_answers_are_written_alike(api: Api, written: Callable[[Api], ModuleType]) -> None:
    """The same bytes, header and size included."""
    module = written(api)
    for version in served(api):
        header = has_tagged_header(api.key, version)
        declared = compile_frame_encoder(api.response, version, tagged_header=header, most_elements=MOST)
        ahead = getattr(module, f"encode_{api.response.__name__}_{version}")
        for message in samples(api.response, version, 5):
            assert bytes_of(ahead, message, 77) == bytes_of(declared, message, 77), (version, message)


@every_hot_api
def test_what_does_not_fit_is_refused_alike(api: Api, written: Callable[[Api], ModuleType]) -> None:
    """A number too large for its field is an EncodeError, of whichever field it is."""
    module = written(api)
    version = api.served[1]
    header = has_tagged_header(api.key, version)
    declared = compile_frame_encoder(api.response, version, tagged_header=header, most_elements=MOST)
    ahead = getattr(module, f"encode_{api.response.__name__}_{version}")
    for field in api.response.FIELDS:
        if type(field.default_value()) is int and field.has(version):
            for value in (2**63, -(2**70)):
                message = api.response(**{field.name: value})
                assert bytes_of(ahead, message, 77) == bytes_of(declared, message, 77) == "EncodeError", field.name


@every_record
def test_records_are_read_and_written_alike(name: str, cls: type[Message], native: None) -> None:
    """In every version, since what older brokers have left is read: whole, cut off, with bytes changed, too large."""
    module = ModuleType(name)
    exec(compile(codecs.record_module(cls), f"<codecs of {name}>", "exec"), module.__dict__)
    for version in range(cls.VERSIONS[0], cls.VERSIONS[1] + 1):
        # Not `compile_decoder`, which in the compiled tree returns what is to be looked at here.
        reads = decoder_source(cls, version).function("decode", "decoder", partial(decoder_source, cls, version))
        encode = encoder_source(cls, version).function("encode", "encoder", partial(encoder_source, cls, version))
        rng = random.Random(f"{name} v{version}")
        for message in (*samples(cls, version, 6), cls(generation=2**31)):
            data = bytes_of(encode, message)
            assert bytes_of(getattr(module, f"encode_{cls.__name__}_{version}"), message) == data, (version, message)
            if data == "EncodeError":
                continue
            cuts = [data[: rng.randrange(len(data) + 1)] for _ in range(4)]
            for frame in (data, data + b"more", *cuts, *(mutilated(rng, data) for _ in range(8))):
                ahead = getattr(module, f"decode_{cls.__name__}_{version}")
                assert verdict(ahead, frame) == verdict(reads, frame), (version, frame.hex())


def verdict(decode: Any, frame: bytes) -> Any:
    try:
        message, end = decode(frame, 0)
    except (ProtocolError, LongMessage) as error:
        return type(error), str(error)
    return attributes(message), end


def bytes_of(encode: Any, message: Any, *arguments: int) -> Any:
    try:
        buffers = encode(message, *arguments)
    except (EncodeError, LongMessage) as error:
        return type(error).__name__
    return b"".join(bytes(buffer) for buffer in buffers)
