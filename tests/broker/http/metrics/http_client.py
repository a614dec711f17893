"""Asking a broker's HTTP listener, with the standard library's client."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

TIMEOUT_S = 20


def get(url: str, **headers: str) -> tuple[int, bytes]:
    """(status, body)."""
    request = urllib.request.Request(url, headers={name.replace("_", "-"): value for name, value in headers.items()})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def get_json(url: str) -> tuple[int, Any]:
    """(status, value)."""
    status, body = get(url)
    return status, json.loads(body)


class Metrics:
    """One scrape, as an independent parser reads it."""

    def __init__(self, http: str) -> None:
        status, body = get(f"{http}/metrics")
        assert status == 200, body
        self.text = body.decode()
        self.families = {family.name: family for family in text_string_to_metric_families(self.text)}
        self.samples = [sample for family in self.families.values() for sample in family.samples]

    def value(self, name: str, **labels: str) -> float | None:
        """The value of the one series with these labels among its own; None when there is none."""
        found = [
            sample.value for sample in self.samples if sample.name == name and labels.items() <= sample.labels.items()
        ]
        assert len(found) <= 1, (name, labels, found)
        return found[0] if found else None

    def names(self) -> set[str]:
        """Of all series."""
        return {sample.name for sample in self.samples}
