"""What `--add-config` takes: `k1=v1,k2=[v1,v2]`, as Kafka's ConfigCommand reads it."""

from __future__ import annotations

import re

from cli.errors import UsageError

_PAIR = re.compile(r"([^=,]+)=(\[[^\]]*\]|[^,]*)(?:,|$)")


def parse_added(text: str) -> dict[str, str]:
    """The keys and values of `k1=v1,k2=[v1,v2]`. Raises: UsageError."""
    pairs = _PAIR.findall(text)
    if sum(len(key) + len(value) + 1 for key, value in pairs) + max(len(pairs) - 1, 0) != len(text.rstrip(",")):
        raise UsageError(f"--add-config {text}: it takes k1=v1,k2=[v1,v2]")
    return {key.strip(): value[1:-1] if value.startswith("[") else value for key, value in pairs}
