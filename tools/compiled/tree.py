"""What stands in the compiled tree: which modules become native code, and what is written for them."""

from __future__ import annotations

import importlib
import re
import shutil
from typing import TYPE_CHECKING

from broker.handlers.dispatch import HANDLERS, most_elements
from protocol.frames import has_tagged_header
from protocol.registry import APIS
from tools.compiled import check, codecs, constants, messages, values
from tools.compiled.codecs import HOT, RECORDS

if TYPE_CHECKING:
    from pathlib import Path

ROOMS = ("protocol", "coordinator", "storage", "broker", "offline", "pipeline", "cli")

SERVING = ("protocol", "coordinator", "storage", "broker")

NATIVE = [
    "protocol.schema.wire_types",
    "protocol.schema.declaration",
    "protocol.schema.runtime",
    "protocol.schema.native_codecs",
    "protocol.frame_cutter",
    "protocol.frames",
    "protocol.records.varint",
    "protocol.records.batch_header",
    "protocol.records.batch_encoder",
    "protocol.records.batch_reader",
    "protocol.records.batch_validation",
    "protocol.records.consumer_protocol",
    "protocol.records.group_records",
    "coordinator.append_errors",
    "coordinator.cause",
    "coordinator.classic",
    "coordinator.consumer",
    "coordinator.events",
    "coordinator.folding",
    "coordinator.group",
    "coordinator.layered",
    "coordinator.load_summary",
    "coordinator.loaded_records",
    "coordinator.loading",
    "coordinator.log_batches",
    "coordinator.offsets",
    "coordinator.outcome",
    "coordinator.routing",
    "coordinator.shard",
    "coordinator.transactions",
    "coordinator.values",
    "coordinator.view",
    "storage.log",
    "storage.state",
    "storage.reading.batch_file",
    "storage.reading.indexes",
    "storage.reading.walk",
    "storage.reading.batches",
    "broker.network.answers",
    "broker.network.caller",
    "broker.network.connection",
    "broker.network.requests",
    "broker.network.transport_side",
    "broker.network.memory",
    "broker.network.ports",
    "broker.network.slow_frames",
    "broker.handlers.dispatch",
    "broker.handlers.context",
    "broker.handlers.consumer_groups",
    "broker.handlers.groups",
    "broker.handlers.offsets",
    "broker.handlers.produce",
    "broker.handlers.produce_transactional",
    "broker.handlers.fetch",
    "broker.handlers.authorizer",
    "broker.catalogue.topics_delta",
    "broker.catalogue.topics_image",
    "broker.coordinators",
    "broker.groups.groups",
    "broker.groups.figures",
    "broker.groups.ledger.departures",
    "broker.groups.ledger.event_records",
    "broker.groups.tenant",
    "broker.groups.silence",
    "broker.groups.peers",
    "broker.partitions.partition",
    "broker.partitions.table",
    "broker.partitions.validation",
    "broker.partitions.fetch_sessions",
    "broker.partitions.checks",
    "broker.partitions.settings",
    "broker.loop.busy_polling",
    "broker.loop.clock",
    "broker.loop.long_turns",
    "broker.loop.timers",
    "broker.loop.slices",
    "broker.loop.turn_end",
    "broker.loop.uuids",
]
"""The path of a request: modules, and packages with all that is in them."""

INTERPRETED = ("broker.coordinators.tenant",)

_OPEN = "mypyc_attr(allow_interpreted_subclasses=True)"
_PLAIN = "mypyc_attr(native_class=False)"
DECORATED = {
    "coordinator.outcome": {"AppendToken": "trait", "Work": _OPEN},  # an input can be its own token
    "broker.catalogue.topics_delta": {"TopicsListener": _OPEN},
    "broker.handlers.dispatch": {"Route": _OPEN},
    "broker.loop.timers": {"Timers": _OPEN},
    "broker.partitions.checks": {"UnexpectedFailure": _PLAIN},  # errors, whose base is interpreted
    "broker.partitions.fetch_sessions": {"SessionError": _PLAIN},
    "broker.partitions.partition": {"Partition": _OPEN},  # as the next two: tests put fakes in their places
    "broker.partitions.table": {"Partitions": _OPEN},
    "storage.log.partition_log": {"PartitionLog": _OPEN},
    "protocol.frame_cutter": {"BadFrameSize": _PLAIN},
    "protocol.records.consumer_protocol": {"MetadataError": _PLAIN},
    "protocol.schema.wire_types": {"Composite": _OPEN},
    "protocol.schema.declaration": {"Struct": _OPEN, "Message": _OPEN},  # of messages that are not hot
}
VARIABLES = {
    "coordinator.layered": ("SMALL_MAX",),
    "broker.partitions.checks": ("USUAL_BYTES",),
    "storage.log.log_lookup": ("RECORDS_AT_ONCE",),
    "storage.reading.walk": ("CHUNK_BYTES", "WINDOW_BYTES"),
}
"""What is written as a constant, and set by tests."""
_DECLARED = re.compile(r"^ *@(dataclass|value)\b", re.MULTILINE)
_FUTURE = "from __future__ import annotations\n"


def write(root: Path, out: Path) -> list[Path]:
    """Write the tree, and return the modules of it that are to be compiled, relative to `out`."""
    for room in ROOMS:
        shutil.copytree(root / room, out / room, ignore=shutil.ignore_patterns("__pycache__"))
    for file in (root / "tools" / "compiled" / "runtime").glob("*.py"):
        shutil.copyfile(file, out / "protocol" / "schema" / file.name)
    native = _modules(out)
    wrong = check.misfits(root, SERVING, native, {name for classes in DECORATED.values() for name in classes})
    if wrong:
        raise SystemExit("; ".join(wrong))
    for name in native:
        if name in ("protocol.schema.native_codecs",):
            continue
        path = _path(out, name)
        module = importlib.import_module(name)
        text = values.with_named_tuples_quoted(values.expanded(path.read_text(), module))
        text = constants.with_constants_final(text, module, VARIABLES.get(name, ()), native)
        for cls, decorator in DECORATED.get(name, {}).items():
            text = re.sub(rf"^class {cls}\b", f"@{decorator}\nclass {cls}", text, flags=re.MULTILINE)
            if "mypy_extensions" not in text:
                text = text.replace(_FUTURE, f"{_FUTURE}from mypy_extensions import mypyc_attr, trait\n", 1)
        # A native function takes no attributes; what it says is for type checkers.
        path.write_text(re.sub(r"^@dataclass_transform\(.*\)\n", "", text, flags=re.MULTILINE))
    _write_values_out(out, set(native))
    return [_path(out, name).relative_to(out) for name in [*native, *_messages(out)]]


def _write_values_out(out: Path, native: set[str]) -> None:
    """Write the dataclasses of interpreted modules out too, but for those of brokers for tests."""
    for room in ("coordinator", "storage", "broker"):
        for path in sorted((out / room).rglob("*.py")):
            name = ".".join(path.relative_to(out).with_suffix("").parts)
            text = path.read_text()
            if name in native or name.startswith("broker.testbed.") or not _DECLARED.search(text):
                continue
            path.write_text(values.expanded(text, importlib.import_module(name), native=False))


def _modules(out: Path) -> list[str]:
    names = []
    for name in NATIVE:
        folder = out / name.replace(".", "/")
        files = sorted(folder.rglob("*.py")) if folder.is_dir() else [_path(out, name)]
        names += [".".join(file.relative_to(out).with_suffix("").parts) for file in files if file.stem != "__init__"]
    return [name for name in names if not f"{name}.".startswith(tuple(f"{left}." for left in INTERPRETED))]


def _messages(out: Path) -> list[str]:
    """Native classes for the messages of hot APIs, and a module of codecs for each API; of some records too."""
    names: list[str] = []
    table: dict[str, tuple[str, int | None]] = {}
    (out / "protocol" / "codecs").mkdir()
    said = "Codecs written ahead: of each hot API, and of each such record, one module."
    (out / "protocol" / "codecs" / "__init__.py").write_text(f'"""{said}"""\n')
    for name in (*(f"protocol.messages.{name}" for name in HOT), *(f"protocol.records.{name}" for name in RECORDS)):
        module = importlib.import_module(name)
        path = _path(out, module.__name__)
        path.write_text(messages.native(path.read_text(), module))
        names.append(module.__name__)
    for api in APIS.values():
        name = api.request.__module__.rpartition(".")[2]
        if name not in HOT:
            continue
        of_request, of_response = most_elements(api.key, HANDLERS[api.key])
        text = codecs.module(api, codecs.spoken(api), (of_request, of_response), has_tagged_header)
        _path(out, f"protocol.codecs.{name}").write_text(text)
        names.append(f"protocol.codecs.{name}")
        table[api.request.__name__] = (name, of_request)
        table[api.response.__name__] = (name, of_response)
    for name, value in RECORDS.items():
        text = codecs.record_module(getattr(importlib.import_module(f"protocol.records.{name}"), value))
        _path(out, f"protocol.codecs.{name}").write_text(text)
        names.append(f"protocol.codecs.{name}")
        table[value] = (name, None)
    ahead = _path(out, "protocol.schema.ahead")
    ahead.write_text(re.sub(r"= \{\}  #", lambda _: f"= {table!r}  #", ahead.read_text(), count=1))
    return names


def _path(out: Path, name: str) -> Path:
    return out / (name.replace(".", "/") + ".py")
