"""Declaring a message once: its fields with their types, versions and defaults, and nothing else.

    @message(api_key=ApiKey.HEARTBEAT, versions=(0, 4), flexible_from=4)
    class HeartbeatRequest(Message):
        group_id: str = field(String)
        generation_id: int = field(Int32)
        member_id: str = field(String)
        group_instance_id: str | None = field(Nullable(String), since=3, default=None)

From that come a slotted class with a keyword constructor, the construct schema of each version, and for each version a
decoder and an encoder, compiled when they are first asked for.

Always true:
- a decoded message has every attribute, whatever its version: what the version lacks has its default;
- a struct that is a default is shared and frozen: to change it, put another one in its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, dataclass_transform

from protocol.errors import ProtocolError, UnsupportedVersion
from protocol.schema.ahead import freeze, new
from protocol.schema.wire_types import NO_DEFAULT, Composite, Field, Nullable, WireType

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import construct

    from protocol.api_keys import ApiKey
    from protocol.schema.wire_types import Buffer


def field(
    wire_type: WireType,
    *,
    since: int = 0,
    until: int | None = None,
    default: Any = NO_DEFAULT,
    nullable_since: int | None = None,
    tag: int | None = None,
    tag_since: int | None = None,
) -> Any:
    """Declare a field of a message or struct.

    `since` and `until` are the first and the last version that have it, `nullable_since` the first in which it can be
    null, `tag` its number where it is a tagged field (from `tag_since` on, by default from `since` on). Without
    `default` it is what Kafka's own definitions imply: zero, empty, false, the zero uuid, even if it can be null.
    """
    if isinstance(wire_type, Nullable):
        wire_type, nullable_since = wire_type.inner, since
    return Field(wire_type, since, until, default, nullable_since, tag, since if tag_since is None else tag_since)


class Struct(Composite):
    """A part of a message: the base of every declared class."""

    __slots__ = ()
    _shared_default: ClassVar[Struct | None] = None

    def __init__(self, **values: Any) -> None:
        # Replaced by compiled code when it is first called, so that importing a message costs next to nothing.
        from protocol.schema.constructor import compile_constructor  # noqa: PLC0415

        cls = type(self)
        cls.__init__ = compile_constructor(cls)  # type: ignore[method-assign]  # the same signature, spelled out
        cls.__init__(self, **values)

    @classmethod
    def shared_default(cls) -> Struct:
        """The one frozen instance that stands wherever a struct of this class has its default."""
        if cls._shared_default is None:
            instance = cls()
            freeze(instance)
            cls._shared_default = instance
        return cls._shared_default

    def __copy__(self) -> Self:
        made: Self = new(type(self))
        for one in self.FIELDS:
            setattr(made, one.name, getattr(self, one.name))
        return made

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Struct) or other.FIELDS is not self.FIELDS:
            return NotImplemented
        return all(getattr(self, f.name) == getattr(other, f.name) for f in self.FIELDS)

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # messages can be changed

    def __repr__(self) -> str:
        values = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in self.FIELDS)
        return f"{type(self).__name__}({values})"


class Message(Struct):
    """What has versions of its own: a request, a response, or the value of a record."""

    __slots__ = ()
    API_KEY: ClassVar[ApiKey | None]
    _decoders: ClassVar[dict[int, Any]]
    _encoders: ClassVar[dict[int, Any]]

    @classmethod
    def decode(cls, version: int, buffer: Buffer, position: int = 0, *, strict: bool = True) -> Self:
        """The message whose bytes run from `position` to the end of `buffer`.

        `strict=False` takes bytes that are left over for granted, as Kafka does.
        Raises: ProtocolError.
        """
        if type(buffer) is not bytes:
            buffer = bytes(buffer)
        result, end = cls.decoder(version)(buffer, position)
        if strict and end != len(buffer):
            raise ProtocolError(f"{len(buffer) - end} bytes left over after {cls.__name__} v{version}")
        return result

    @classmethod
    def decoder(cls, version: int) -> Callable[[bytes, int], tuple[Self, int]]:
        """The compiled `(buffer, position) -> (message, end)` of one version; it raises ProtocolError.

        `buffer` must be `bytes`, and what lies behind the message in it is not looked at.
        """
        decoder: Callable[[bytes, int], tuple[Self, int]] | None = cls._decoders.get(version)
        if decoder is None:
            from protocol.schema.decoder import compile_decoder  # noqa: PLC0415

            cls._check(version)
            decoder = cls._decoders[version] = compile_decoder(cls, version)
        return decoder

    def encode(self, version: int) -> bytes:
        """The bytes of this message in `version`; fields that the version lacks are left out, whatever they hold.

        Raises: EncodeError when a value does not fit its field.
        """
        return b"".join(self.encoder(version)(self))

    @classmethod
    def encoder(cls, version: int) -> Callable[[Self], Sequence[Buffer]]:
        """The compiled `(message) -> buffers` of one version. Record data is passed on, not copied."""
        encoder: Callable[[Self], Sequence[Buffer]] | None = cls._encoders.get(version)
        if encoder is None:
            from protocol.schema.encoder import compile_encoder  # noqa: PLC0415

            cls._check(version)
            encoder = cls._encoders[version] = compile_encoder(cls, version)
        return encoder

    @classmethod
    def schema(cls, version: int) -> construct.Struct:
        """The layout of one version as a construct: parse with it, build with it, print it. Not for network bytes."""
        from protocol.schema.reference import schema  # noqa: PLC0415

        cls._check(version)
        return schema(cls, version)

    @classmethod
    def _check(cls, version: int) -> None:
        if not cls.VERSIONS[0] <= version <= cls.VERSIONS[1]:
            raise UnsupportedVersion(cls.__name__, given=version, versions=cls.VERSIONS)


S = TypeVar("S", bound=Struct)
M = TypeVar("M", bound=Message)


# Without field specifiers a type checker takes every field for one with a default, and each of ours has one.
@dataclass_transform(kw_only_default=True)
def struct(cls: type[S]) -> type[S]:
    """Make a class of declared fields a part of messages. Its versions are those of the message it stands in."""
    fields = {name: value for name, value in vars(cls).items() if isinstance(value, Field)}
    namespace = {
        name: value for name, value in vars(cls).items() if name not in fields | {"__dict__": 0, "__weakref__": 0}
    }
    namespace["__slots__"] = tuple(fields)
    namespace["FIELDS"] = tuple(fields.values())
    slotted: type[S] = type(cls.__name__, cls.__bases__, namespace)  # slots cannot be added to a class that exists
    return slotted


@dataclass_transform(kw_only_default=True)
def message(
    *, versions: tuple[int, int], flexible_from: int | None = None, api_key: ApiKey | None = None
) -> Callable[[type[M]], type[M]]:
    """Make a class of declared fields a message with versions of its own, `versions` being the first and the last.

    `flexible_from` is the first version with compact lengths and tagged fields, None where no version has them. Values
    of records have no `api_key`.
    """

    def decorate(cls: type[M]) -> type[M]:
        result = struct(cls)
        result.API_KEY, result.VERSIONS, result.FLEXIBLE_FROM = api_key, versions, flexible_from
        result._decoders, result._encoders = {}, {}
        return result

    return decorate
