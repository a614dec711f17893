"""The scenarios: functions of a script, registered under their ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module

from tests.reference.judge.play import Scenario, Script
from tests.reference.judge.versions import OLDEST

MODULES = (
    "joining",
    "groups",
    "offsets",
    "data",
    "admin",
    "odd",
    "turns",
    "transactions",
    "pending",
    "undecided",
    "producers",
    "patience",
    "levels",
    "expiry",
    "killed",
    "consumer",
    "epochs",
    "limits",
    "loaded",
    "newest",
    "cluster",
    "quotas",
    "rights",
)
SCENARIOS: dict[str, Scenario] = {}

Act = Callable[[Script], None]


def scenario(name: str, *, stage: str = "main", first: bool = False, since: str = OLDEST) -> Callable[[Act], Act]:
    """Register an act. Ids of docs/scenarios (J17) come first in a name; the same name in two stages is two acts."""

    def register(act: Act) -> Act:
        known = SCENARIOS.get(name)
        assert known is None or stage not in known.acts, f"two scenarios are named {name}"
        acts = (known.acts if known else {}) | {stage: act}
        SCENARIOS[name] = Scenario(name, acts, first, since)
        return act

    return register


def each_version(
    name: str, versions: Iterable[int], *, stage: str = "main", since: str = OLDEST
) -> Callable[[Callable[[Script, int], None]], Callable[[Script, int], None]]:
    """Register one scenario per version of an API: `name-v3`."""

    def register(act: Callable[[Script, int], None]) -> Callable[[Script, int], None]:
        for version in versions:
            scenario(f"{name}-v{version}", stage=stage, since=since)(lambda s, version=version: act(s, version))
        return act

    return register


def everything() -> list[Scenario]:
    """All of them, in the order of their modules."""
    for module in MODULES:
        import_module(f"tests.reference.judge.scenarios_{module}")

    return list(SCENARIOS.values())
