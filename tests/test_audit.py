"""`make check` finds known vulnerabilities of what is pinned, with OSV and without."""

from __future__ import annotations

import http.server
import json
import threading
from typing import TYPE_CHECKING, Any

import pytest

from tools import audit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOBODY = "http://127.0.0.1:9"
RECORD = {
    "id": "PYSEC-1",
    "affected": [
        {
            "package": {"ecosystem": "PyPI", "name": "Some.Package"},
            "ranges": [
                {"type": "GIT", "events": [{"introduced": "0"}]},
                {
                    "type": "ECOSYSTEM",
                    "events": [{"introduced": "2.0"}, {"fixed": "2.3"}, {"introduced": "0"}, {"fixed": "1.10"}],
                },
            ],
        }
    ],
}


@pytest.fixture
def service() -> Iterator[str]:
    """Answers as OSV does: one record, about some-package, and a batch in which version 2.1 of it is affected."""

    class Answers(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            told: dict[str, Any] = {}
            if self.path == "/querybatch":
                of = [(one["package"]["name"], one["version"]) for one in asked["queries"]]
                told["results"] = [
                    {"vulns": [{"id": "GHSA-1"}]} if one == ("some-package", "2.1") else {} for one in of
                ]
            elif asked["package"]["name"] == "some-package":
                told["vulns"] = [RECORD]
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(told).encode())

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{serving.server_port}"
        serving.shutdown()


def locked(folder: Path, *pins: str) -> Path:
    lock = folder / "requirements.lock"
    lock.write_text("# pins\n" + "\n".join(pins) + "\n")
    return lock


@pytest.mark.parametrize(
    ("version", "hit"),
    [("1.9", True), ("1.10", False), ("1.99", False), ("2.0", True), ("2.2.9", True), ("2.3", False)],
)
def test_ranges_are_of_versions_and_not_of_text(version: str, hit: bool) -> None:
    [advisory] = audit.advisories_of("some-package", [RECORD])
    assert audit.affected(advisory, version) == hit


def test_what_osv_knows_fails_the_check(service: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lock = locked(tmp_path, "Some_Package==2.1 ; python_version < '3.12'", "some-package==2.3", "other==1")
    assert audit.check(service, lock) == 1
    assert "some-package 2.1: GHSA-1\naudit: 3 pins, 1 with known" in capsys.readouterr().out


def test_without_osv_what_is_kept_counts_and_a_line_says_so(
    service: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "advisories.json"
    lock = locked(tmp_path, "some-package==2.1", "other==1")
    audit.refresh(None, "2026-01-31", service, lock, kept)
    locked(tmp_path, "some-package==2.2", "newcomer==1")
    assert audit.check(NOBODY, lock, kept) == 1
    told = capsys.readouterr().out
    assert "some-package 2.2: PYSEC-1" in told
    assert "the advisories of 2026-01-31 (no OSV here:" in told
    assert "not asked for newcomer" in told

    known = json.loads(kept.read_text())
    kept.write_text(json.dumps({**known, "accepted": {"PYSEC-1": "we do not call it"}}))
    assert audit.check(NOBODY, lock, kept) == 0


def test_a_checkout_says_what_the_service_says(service: str, tmp_path: Path) -> None:
    folder = tmp_path / "vulns" / "some-package"
    folder.mkdir(parents=True)
    (folder / "PYSEC-1.yaml").write_text(json.dumps(RECORD))  # which is YAML too
    names = ["other", "some-package"]
    assert dict(audit.read_from(tmp_path, names)) == dict(audit.advisories_from(service, names))


def test_an_old_version_of_a_library_of_ours_is_found_without_a_network(tmp_path: Path) -> None:
    assert audit.check(NOBODY, locked(tmp_path, "cryptography==41.0.1", "pyjwt==2.3.0")) == 2
