"""Error codes and uuids are Kafka's."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from protocol.errors import ErrorCode, error_message
from protocol.types import METADATA_TOPIC_ID, ZERO_UUID, uuid_from_text, uuid_of_halves, uuid_text


def test_codes_and_names_are_kios() -> None:
    """Each that kio knows; and none is left out."""
    ours = {error.value: error.name for error in ErrorCode}

    assert {error.value: error.name.upper() for error in KioErrorCode}.items() <= ours.items()
    assert list(ours) == list(range(-1, 137))


def test_a_code_has_kafkas_message() -> None:
    """NONE's is its name, as FindCoordinator 1-3 sends it."""
    assert ErrorCode.NONE.message == "NONE"
    assert error_message(15) == "The coordinator is not available."
    assert error_message(9_999) == ErrorCode.UNKNOWN_SERVER_ERROR.message


def test_a_uuid_is_22_characters_of_text() -> None:
    """As Kafka prints it."""
    assert uuid_text(ZERO_UUID) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert uuid_text(METADATA_TOPIC_ID) == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert uuid_text(bytes(range(240, 256))) == "8PHy8_T19vf4-fr7_P3-_w"
    assert uuid_of_halves(-1, 2) == b"\xff" * 8 + bytes(7) + b"\x02"
    assert uuid_from_text("8PHy8_T19vf4-fr7_P3-_w") == bytes(range(240, 256))


@pytest.mark.parametrize("text", ["", "AAAA", "AAAAAAAAAAAAAAAAAAAAAR", "AAAAAAAAAAAAAAAAAAAAA!", "A" * 24, "ä" * 22])
def test_what_is_no_uuid_is_refused(text: str) -> None:
    """Characters that base64 would silently leave out, and bits that no uuid has."""
    with pytest.raises(ValueError, match="not a uuid"):
        uuid_from_text(text)
