"""How right a diagnosis is: what it found, missed, and accused falsely."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tests.incidents.corpus import Incident
    from tests.incidents.stage import Diagnosis


class Score(NamedTuple):
    """`missed`: patterns that nothing matches; `false`: what must not have been said."""

    missed: tuple[str, ...]
    false: tuple[str, ...]

    @property
    def right(self) -> bool:
        """Everything found, nobody accused."""
        return not self.missed and not self.false


def score(incident: Incident, diagnosis: Diagnosis) -> Score:
    """Of one surface."""
    said = diagnosis.said | {f"text:{diagnosis.text}"}
    missed = tuple(one for one in incident.must if not any(fnmatchcase(told, one) for told in said))
    allowed = (*incident.must, *incident.may)
    false = {told[:200] for told in said if any(fnmatchcase(told, one) for one in incident.never)}
    false |= {
        told for told in said if told.startswith("finding:") and not any(fnmatchcase(told, one) for one in allowed)
    }
    return Score(missed, tuple(sorted(false)))
