"""Are there known vulnerabilities in the versions of requirements.lock? `make check` asks, `make audit` reads anew.

OSV is asked, in one request, where it can be reached; else the advisories that are kept in advisories.json, and a line
says so and of which day they are. docs/decisions/audit.md has why.

Source: the OSV schema (ossf.github.io/osv-schema), api.osv.dev.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
KEPT = ROOT / "tools" / "advisories.json"
SERVICE = "https://api.osv.dev/v1"
WITHIN_S = 5.0
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;]+)", re.MULTILINE)

Advisory = dict[str, Any]
Found = dict[tuple[str, str], list[str]]
"""Ids of what is known against a version of a package."""


class Unreachable(Exception):
    """The service does not answer; the message says why."""


def pinned(lock: str) -> list[tuple[str, str]]:
    """(package, version) of each pin; a package may have one for each Python."""
    return [(canonicalize_name(name), version) for name, version in _PIN.findall(lock)]


def live(pins: list[tuple[str, str]], service: str = SERVICE) -> Found:
    """What the service knows. Raises: Unreachable."""
    queries = [{"package": {"name": name, "ecosystem": "PyPI"}, "version": version} for name, version in pins]
    results = _ask(f"{service}/querybatch", {"queries": queries})["results"]
    return {
        pin: [one["id"] for one in result["vulns"]]
        for pin, result in zip(pins, results, strict=True)
        if result.get("vulns")
    }


def offline(pins: list[tuple[str, str]], packages: Mapping[str, list[Advisory]]) -> Found:
    """What is known by the advisories that are kept."""
    found = {
        (name, version): [one["id"] for one in packages.get(name, []) if affected(one, version)]
        for name, version in pins
    }
    return {pin: ids for pin, ids in found.items() if ids}


def affected(advisory: Advisory, version: str) -> bool:
    """Whether a version is one that the advisory is about. Source: the schema's evaluation."""
    if version in advisory["versions"]:
        return True
    pinned = Version(version)
    for events in advisory["ranges"]:
        inside = False
        for kind, limit in sorted(events, key=lambda event: (_version(event[1]), event[0] != "introduced")):
            at = _version(limit)
            if kind == "introduced" and pinned >= at:
                inside = True
            elif (kind == "fixed" and pinned >= at) or (kind == "last_affected" and pinned > at):
                inside = False
        if inside:
            return True
    return False


def _version(text: str) -> Version:
    try:
        return Version(text)
    except InvalidVersion:
        return Version("0")


def advisories_of(name: str, records: Iterable[Mapping[str, Any]]) -> list[Advisory]:
    """What has to be kept of the records that are about one package."""
    kept = []
    for record in records:
        ranges: list[list[list[str]]] = []
        versions: set[str] = set()
        for part in record.get("affected", ()):
            about = part.get("package", {})
            if about.get("ecosystem") != "PyPI" or canonicalize_name(about["name"]) != name:
                continue
            found = [
                [[kind, str(limit)] for event in one["events"] for kind, limit in event.items()]
                for one in part.get("ranges", ())
                if one["type"] == "ECOSYSTEM"
            ]
            ranges += found
            if not found:
                versions |= {str(version) for version in part.get("versions", ())}
        if (ranges or versions) and not record.get("withdrawn"):
            kept.append({"id": record["id"], "ranges": ranges, "versions": sorted(versions)})
    return sorted(kept, key=lambda one: str(one["id"]))


def advisories_from(service: str, names: Iterable[str]) -> Iterator[tuple[str, list[Advisory]]]:
    """All advisories of each package. Raises: Unreachable."""
    for name in names:
        answer = _ask(f"{service}/query", {"package": {"name": name, "ecosystem": "PyPI"}})
        yield name, advisories_of(name, answer.get("vulns", ()))


def read_from(folder: Path, names: Iterable[str]) -> Iterator[tuple[str, list[Advisory]]]:
    """The same, of a checkout of the Python Packaging Advisory Database."""
    for name in names:
        records = [yaml.safe_load(path.read_text()) for path in sorted((folder / "vulns" / name).glob("*.yaml"))]
        yield name, advisories_of(name, records)


def _ask(address: str, question: Mapping[str, Any]) -> dict[str, Any]:
    request = urllib.request.Request(address, json.dumps(question).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=WITHIN_S) as answer:
            told: dict[str, Any] = json.load(answer)
            return told
    except (OSError, ValueError) as error:
        raise Unreachable(str(getattr(error, "reason", error))) from None


def check(service: str = SERVICE, lock: Path = LOCK, kept: Path = KEPT) -> int:
    """Print what is known against the pins; the number of packages that it is known of, what is accepted aside."""
    pins = pinned(lock.read_text())
    snapshot = json.loads(kept.read_text())
    try:
        found, by = live(pins, service), "OSV"
    except Unreachable as error:
        found, by = offline(pins, snapshot["packages"]), f"the advisories of {snapshot['day']} (no OSV here: {error})"
        unknown = sorted({name for name, _ in pins} - snapshot["packages"].keys())
        if unknown:
            by += f", which were not asked for {', '.join(unknown)}: make audit"
    accepted: dict[str, str] = snapshot["accepted"]
    found = {pin: rest for pin, ids in found.items() if (rest := [one for one in ids if one not in accepted])}
    for (name, version), ids in found.items():
        print(f"{name} {version}: {', '.join(ids)}")
    print(f"audit: {len(pins)} pins, {len(found) or 'none'} with known vulnerabilities, by {by}")
    return len(found)


def refresh(source: Path | None, day: str, service: str = SERVICE, lock: Path = LOCK, kept: Path = KEPT) -> None:
    """Write what is known of each package that is pinned. Raises: Unreachable."""
    names = sorted({name for name, _ in pinned(lock.read_text())})
    packages = dict(read_from(source, names) if source else advisories_from(service, names))
    accepted = json.loads(kept.read_text())["accepted"] if kept.exists() else {}
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(packages[name])}" for name in names)
    kept.write_text(f'{{\n "day": "{day}",\n "accepted": {json.dumps(accepted)},\n "packages": {{\n{lines}\n }}\n}}\n')


def main() -> int:
    """Check, or read the advisories anew."""
    parser = argparse.ArgumentParser(prog="make audit", description=__doc__)
    parser.add_argument("--refresh", action="store_true", help="write advisories.json anew, of what OSV knows")
    parser.add_argument("--from", type=Path, dest="source", help="a checkout of pypa/advisory-database instead of OSV")
    parser.add_argument("--day", default=time.strftime("%Y-%m-%d"), help="of what day they are (today)")
    options = parser.parse_args()
    if options.refresh:
        try:
            refresh(options.source, options.day)
        except Unreachable as error:
            print(f"OSV does not answer ({error}); --from takes a checkout of pypa/advisory-database")
            return 1
    return int(check() > 0)


if __name__ == "__main__":
    sys.exit(main())
