"""Offsets that were set back, removed, or set forth while nobody read."""

from typing import TYPE_CHECKING, Any

from pipeline.decode.schemas import GROUP_GENERATIONS, GROUP_RECORDS
from pipeline.transformations import membership, offset_commits, offset_resets
from tests.pipeline.rows import at, commit, frame, generation, member, shuffled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = ("at", "kind", "from_offset", "to_offset", "distance", "set_by", "client_id")


def resets(spark: "SparkSession", *rows: dict[str, Any], **told: Any) -> list[tuple[Any, ...]]:
    """The table of commits and generations, a tuple a row."""
    generations = [row for row in rows if "member_count" in row]
    commits = offset_commits(frame(spark, GROUP_RECORDS, [row for row in rows if row not in generations]))
    spans = membership(frame(spark, GROUP_GENERATIONS, generations))
    if told.get("mixed"):
        commits, spans = shuffled(commits, 7), shuffled(spans, 2)
    found = offset_resets(commits, spans).orderBy("log_offset").toArrow().to_pylist()
    return [tuple(row[name] for name in COLUMNS) for row in found]


COMMITS = (
    generation(1, 0, 1, member("a", (0,))),
    commit(2, 10, 100),
    commit(3, 20, 200),
    commit(4, 30, 50),  # a seek of its own
    commit(5, 40, 300),
    generation(6, 50, 2),  # it left
    commit(7, 60, 900),  # a tool, while nobody was there
    commit(8, 70, 0),
    commit(9, 80, None),
    commit(10, 90, 5),
    generation(11, 100, 3, member("b", (0,))),
    commit(12, 110, 700),  # read, however far
)


def test_who_set_offsets_back_or_forth(spark: "SparkSession"):
    """An owner's steps forth are reading; an outsider's are not. What comes after a removal is a beginning."""
    expected = [
        (at(30), "back", 200, 50, -150, "owner", "client-a"),
        (at(60), "forth", 300, 900, 600, "outsider", None),
        (at(70), "back", 900, 0, -900, "outsider", None),
        (at(80), "removed", 0, None, None, "outsider", None),
    ]
    assert resets(spark, *COMMITS) == expected
    assert resets(spark, *COMMITS, mixed=True) == expected


def test_of_a_group_whose_members_nobody_knows_only_steps_back_are_told(spark: "SparkSession"):
    """One that assigns itself partitions leaves no generation: whether it read or jumped cannot be told."""
    commits = (commit(1, 0, 10), commit(2, 10, 1000), commit(3, 20, 10))

    assert resets(spark, *commits) == [(at(20), "back", 1000, 10, -990, None, None)]


DEPLOY = (
    generation(1, 0, 1, member("old", (0,)), member("stays", (1,))),
    commit(2, 10, 100),
    generation(3, 20, 2, member("old"), member("stays", (1,)), member("new")),  # the first round: it is nobody's
    commit(4, 20.5, 160),  # what it had read while it was told
    commit(5, 20.6, 150),
    commit(6, 20.7, None),  # its topic was deleted
    commit(7, 20.8, 150),
    generation(8, 21, 3, member("stays", (1,)), member("new", (0,))),
    commit(9, 30, 200),
    generation(10, 40, 4, member("new")),  # nobody has anything for a moment
    commit(11, 40.5, 300),
    generation(12, 41, 5, member("new", (0, 1))),
    generation(13, 50, 6),
    commit(14, 60, 900),
    generation(15, 70, 7, member("late", (1,))),
)


def test_who_gives_a_partition_up_commits_while_it_is_nobodys(spark: "SparkSession"):
    """A cooperative protocol: nobody else may commit while somebody is in the group, and forth is reading."""
    expected = [
        (at(20.6), "back", 160, 150, -10, "owner", "client-old"),
        (at(20.7), "removed", 150, None, None, "outsider", None),
        (at(60), "forth", 300, 900, 600, "outsider", None),
    ]
    assert resets(spark, *DEPLOY) == expected
    assert resets(spark, *DEPLOY, mixed=True) == expected
