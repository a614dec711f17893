"""docs/versions.md says what each client was asked behind TLS and SASL, as the tests that ask it are written."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

from broker.network.listener_security import _MODULES
from tests.clients import test_secured_clients as secured
from tests.support.scenarios import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE = ROOT / "docs" / "versions.md"
NAMES = {
    "java": "Java client",
    "confluent": "confluent-kafka",
    "kafka_python": "kafka-python",
    "aiokafka": "aiokafka",
    "kafkajs": "kafkajs",
    "franz": "franz-go",
    "kcat": "kcat",
}
LOG_IN = (secured.test_a_right_log_in_is_served_and_a_wrong_one_is_told,)
CERTIFICATE = (secured.test_certificates_good_expired_foreign_and_none,)
BROKERS_CERTIFICATE = (secured.test_an_expired_certificate_of_the_brokers_is_refused,)
SESSION = (secured.test_sessions_end_and_clients_go_on,)
RIGHT = (
    secured.test_a_right_that_is_taken_in_the_middle_of_a_session_is_gone,
    secured.test_a_kcat_that_stays_is_refused_when_its_right_is_taken,
)


def played(*tests: Callable[..., Any]) -> set[tuple[str, str]]:
    """(client, way) of each case; a test that names no way stands under that of certificates."""
    found = set()
    for test in tests:
        given = {mark.args[0]: mark.args[1] for mark in test.pytestmark if mark.name == "parametrize"}  # type: ignore[attr-defined]
        ways = given.get("mechanism") or given.get("way") or ["certificate"]
        found |= set(product(given["client"], ways))
    return found


def table() -> str:
    """In Markdown: what is said of each cell that is played, and a blank for each that is not."""
    ways = secured.WAYS
    lines = [f"| | {' | '.join(ways)} | a right that is taken | a session that ends |", "|---" * (len(ways) + 3) + "|"]
    for client, name in NAMES.items():
        cells = []
        for way in ways:
            if way == "certificate":
                whole = (client, way) in played(*CERTIFICATE) & played(*BROKERS_CERTIFICATE)
                cells.append("both sides refuse" if whole else "")
            else:
                told = secured.TOLD_OF_TOKENS if way == "OAUTHBEARER" else secured.TOLD
                cells.append(told[client] if (client, way) in played(*LOG_IN) else "")
        whole = all((client, way) in played(*RIGHT) for way in ways)
        cells.append(secured.TOLD_OF_RIGHTS[client] if whole else "")
        cells.append(secured.ENDING[client] if (client, "certificate") in played(*SESSION) else "")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def test_the_page_has_the_cells_that_are_played_and_none_is_blank() -> None:
    """Seven clients, five ways to say who one is."""
    assert tuple(NAMES) == secured.CLIENTS
    made = table()
    assert "|  |" not in made, made
    assert made in PAGE.read_text(), f"docs/versions.md should have\n\n{made}"


def test_kafkas_mechanisms_are_all_played() -> None:
    """Those that `sasl.enabled.mechanisms` takes, and certificates."""
    assert set(secured.WAYS) == {*_MODULES, "certificate"}
