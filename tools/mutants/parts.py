"""What `make mutants-quick` mutates, and which tests it holds against that: those that know the modules best, first."""

from __future__ import annotations

from dataclasses import dataclass

from tools.mutants.workplace import ROOT


@dataclass(frozen=True)
class Part:
    """Some modules and their tests."""

    files: tuple[str, ...]
    tests: tuple[str, ...]
    first: tuple[str, ...] = ()
    """Tests that find most, held against a fault before all others, in forks of one process."""

    @property
    def paths(self) -> list[str]:
        """The modules; a pattern leaves out those of packages below, unless it says `**`."""
        found = (path for pattern in self.files for path in ROOT.glob(pattern))
        return sorted(str(path.relative_to(ROOT)) for path in found)


def _tests(folder: str, names: str) -> tuple[str, ...]:
    return tuple(f"tests/{folder}/test_{name}.py" for name in names.split())


def _kept(of: str) -> str:
    return f"tests/coordinator/test_kept_outcomes.py::test_of_{of}"


_CLASSIC = (_kept("the_classic_protocol"), "tests/coordinator/classic")
_CONSUMER = _tests(
    "coordinator/consumer",
    "joining reconciling leaving moving assignors rebalance_tracking offsets regexes loading",
)
_OFFSETS = _tests("coordinator/offsets", "commit_and_fetch deletion_and_expiry transactional_offsets")
_OFFSETS += _tests("coordinator", "loading")
_WHY = "tests/coordinator/why"
_KEPT = "kept_courses kept_tables thresholds words_of_files errors "
_RECOVERY = (
    "tests/storage/test_kept_courses.py::test_of_opening",
    *_tests("storage", "retention producers partition_log recovery"),
)
_FILES = ("storage", _KEPT + "log_directory retention")
_DIRECTORY = _tests(*_FILES) + _tests(
    "broker/partitions", "folders_at_start topic_folders several_directories failing_directories moves"
)
_LOG = _tests(
    "storage",
    _KEPT + "handover retention timestamp_at failed_fsync producers partition_log walk recovery log_model "
    "flush_overlap crash",
)
_CLEAN = _tests("storage", _KEPT + "cleaner cleaner_histories") + _tests("broker/partitions", "log_manager")
_OPENING = _tests(
    "storage",
    _KEPT + "retention producers partition_log recovery transaction_recovery failed_fsync crash",
)
_READING = _tests(
    "storage",
    _KEPT + "walk retention timestamp_at producers partition_log recovery handover cleaner",
)
_FIRST = _tests("storage", _KEPT)
_FIRST_OF_RULES = (
    "tests/coordinator/test_kept_outcomes.py",
    "tests/coordinator/test_kept_views.py",
    "tests/coordinator/why/test_kept_words.py",
)
ROOMS = {
    "classic": (
        Part(
            ("coordinator/classic/[ehlst]*.py",),  # expiry, heartbeat, leadership, leave, sync, tokens
            _CLASSIC,
        ),
    ),
    "recovery": (Part(("storage/recovery/*.py", "storage/state/leader_epochs.py"), _RECOVERY),),
    "coordinator": (
        Part(("coordinator/classic/**/*.py",), _CLASSIC, _FIRST_OF_RULES),
        Part(
            ("coordinator/consumer/**/*.py",),
            (_kept("the_consumer_protocol"), _kept("offsets"), *_CONSUMER),
            _FIRST_OF_RULES,
        ),
        Part(("coordinator/offsets/**/*.py",), (_kept("offsets"), *_OFFSETS), _FIRST_OF_RULES),
        Part(
            ("coordinator/transactions/**/*.py",),
            (_kept("transactions"), "tests/coordinator/transactions"),
            _FIRST_OF_RULES,
        ),
        Part(("coordinator/why/**/*.py",), (_WHY,), _FIRST_OF_RULES),
        Part(
            ("coordinator/*.py",),
            ("tests/coordinator/test_kept_outcomes.py", *_CLASSIC[1:], *_OFFSETS, *_CONSUMER, _WHY),
            _FIRST_OF_RULES,
        ),
    ),
    "storage": (
        Part(("storage/directory/**/*.py",), _DIRECTORY, _FIRST),
        Part(("storage/log/**/*.py",), (*_LOG, "tests/broker/handlers/test_lookups.py"), _FIRST),
        Part(("storage/clean/**/*.py",), _CLEAN, _FIRST),
        Part(("storage/recovery/**/*.py",), _OPENING, _FIRST),
        Part(
            ("storage/state/**/*.py", "storage/*.py"), (*_LOG, *_OPENING[-3:], *_CLEAN[-3:], *_DIRECTORY[5:6]), _FIRST
        ),
        Part(("storage/reading/**/*.py",), _READING, _FIRST),
    ),
    "leader": (Part(("broker/coordinators/*.py",), ("tests/broker/groups", "tests/broker/transactions")),),
}
FOR_CI = ("classic", "recovery")
