"""Scrapers that come while a scrape is made get what it gives, and it is made once."""

import weakref
from collections.abc import Iterator

import pytest

from broker.http.shared_scrape import JOINED_BELOW_BYTES, SharedScrape
from tests.support.garbage import collected_by_nobody


class Making:
    """A scrape of so many pieces; counts what was made."""

    def __init__(self, pieces: int, size: int = 10, *, fails: bool = False) -> None:
        self.made = 0
        self.over = 0
        self._fails = fails
        self.shared = SharedScrape(self._pieces(pieces, size), lambda _: self._end())

    def _end(self) -> None:
        self.over += 1

    def _pieces(self, count: int, size: int) -> Iterator[bytes]:
        for number in range(count):
            self.made += 1
            yield b"" if number % 2 else bytes([number % 250]) * size
        if self._fails:
            raise ValueError("no")


def steps(reader: Iterator[bytes], count: int) -> bytes:
    return b"".join(next(reader, b"") for _ in range(count))


def test_all_who_ask_get_the_same_and_it_is_made_once() -> None:
    making = Making(100)
    first = making.shared.read()
    begun = steps(first, 31)
    second = making.shared.read()
    third = making.shared.read()
    read = steps(second, 7)
    whole = begun + b"".join(first)
    assert read + b"".join(second) == whole
    assert b"".join(third) == whole
    assert making.made == 100
    assert making.over == 1
    assert not making.shared.may_be_joined


def test_a_reader_that_goes_leaves_the_others_theirs() -> None:
    making = Making(100)
    first, second = making.shared.read(), making.shared.read()
    begun = steps(first, 5)
    steps(second, 50)
    second.close()  # type: ignore[attr-defined]
    assert making.over == 0
    assert len(begun + steps(first, 1_000)) == 500
    assert making.over == 1


def test_a_scrape_that_nobody_reads_any_more_ends() -> None:
    making = Making(100)
    reader = making.shared.read()
    steps(reader, 5)
    reader.close()  # type: ignore[attr-defined]
    assert making.over == 1
    assert making.made < 10


def test_nobody_joins_late_and_what_all_have_read_is_not_kept() -> None:
    making = Making(1_000, JOINED_BELOW_BYTES // 10)
    reader = making.shared.read()
    while making.shared.may_be_joined:
        next(reader)
    for _ in range(500):
        next(reader)
    assert sum(map(len, making.shared._made)) <= JOINED_BELOW_BYTES // 10


def test_a_scrape_that_fails_fails_for_everybody() -> None:
    making = Making(10, fails=True)
    first, second = making.shared.read(), making.shared.read()
    for reader in (first, second):
        with pytest.raises(ValueError, match="no"):
            list(reader)
    assert making.over == 1


def test_a_scrape_that_fails_is_let_go_of_when_all_know_it() -> None:
    """With all that it has gathered."""

    def pieces() -> Iterator[bytes]:
        yield b"begun"
        raise ValueError("no")

    with collected_by_nobody():
        shared = SharedScrape(pieces(), lambda _: None)
        left = weakref.ref(shared)
        first, second = shared.read(), shared.read()
        for reader in (first, second):
            with pytest.raises(ValueError, match="no"):
                list(reader)
        del shared, first, second, reader
        assert left() is None
