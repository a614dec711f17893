"""What the metadata log says besides topics and configs, as its records: they stand in snapshots as they are.

Registrations, quotas, SCRAM credentials, delegation tokens, ACLs, the state of a migration from ZooKeeper. Not all
of it is acted upon here; Apache Kafka finds all again when it is started on the directory.

Source: Kafka's ClusterDelta, ClientQuotasDelta, ScramDelta, DelegationTokenDelta, AclsDelta.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from protocol.records import metadata_records as records

if TYPE_CHECKING:
    from collections.abc import Callable

_QuotaKey = tuple[tuple[tuple[str, str | None], ...], str]  # ((entity type, entity name), ...), quota


@dataclass(slots=True)
class KeptRecords:
    """The records that hold now, by what a later record of their kind replaces or removes."""

    brokers: dict[int, records.RegisterBrokerRecord] = field(default_factory=dict)
    controllers: dict[int, records.RegisterControllerRecord] = field(default_factory=dict)
    zk_migration_state: int | None = None
    quotas: dict[_QuotaKey, records.ClientQuotaRecord] = field(default_factory=dict)
    acls: dict[bytes, records.AccessControlEntryRecord] = field(default_factory=dict)
    scram: dict[tuple[str, int], records.UserScramCredentialRecord] = field(default_factory=dict)
    tokens: dict[str, records.DelegationTokenRecord] = field(default_factory=dict)
    acl_ids: dict[tuple[Any, ...], bytes] = field(default_factory=dict)  # the ids of `acls`, by all else
    scram_changes: int = 0  # rises with every change of `scram`

    def apply(self, record: Any) -> None:
        """Fold one record in; one that says nothing lasting (NoOp) changes nothing."""
        kind = type(record)
        if kind in _KINDS:
            kept, key = _KINDS[kind]
            if kind is records.ClientQuotaRecord and record.remove:
                self.quotas.pop(key(record), None)
            else:
                getattr(self, kept)[key(record)] = record
        elif kind in _TOMBSTONES:
            kept, key = _TOMBSTONES[kind]
            gone = getattr(self, kept).pop(key(record), None)
            if kept == "acls" and gone is not None and self.acl_ids.get(value_of(gone)) == record.id:
                del self.acl_ids[value_of(gone)]
        elif kind in _CHANGES:
            _CHANGES[kind](self, record)
        if kind is records.AccessControlEntryRecord:
            self.acl_ids[value_of(record)] = record.id
        self.scram_changes += kind in _OF_SCRAM

    def _change_registration(self, record: records.BrokerRegistrationChangeRecord) -> None:
        old = self.brokers.get(record.broker_id)
        if old is None:
            return
        new = self.brokers[record.broker_id] = copy(old)
        if record.fenced:
            new.fenced = record.fenced > 0
        if record.in_controlled_shutdown:
            new.in_controlled_shutdown = record.in_controlled_shutdown > 0
        if record.log_dirs:
            new.log_dirs = list(record.log_dirs)
        if record.cordoned_log_dirs is not None:
            new.cordoned_log_dirs = list(record.cordoned_log_dirs)

    def _fence(self, record: records.FenceBrokerRecord | records.UnfenceBrokerRecord) -> None:
        old = self.brokers.get(record.id)
        if old is not None:
            new = self.brokers[record.id] = copy(old)
            new.fenced = type(record) is records.FenceBrokerRecord

    def _zk_migration(self, record: records.ZkMigrationStateRecord) -> None:
        self.zk_migration_state = record.zk_migration_state


def value_of(acl: records.AccessControlEntryRecord) -> tuple[Any, ...]:
    """What tells one ACL from another: all of it but its id."""
    return (
        acl.resource_type,
        acl.resource_name,
        acl.pattern_type,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission_type,
    )


def _quota_key(record: records.ClientQuotaRecord) -> _QuotaKey:
    return tuple(sorted((one.entity_type, one.entity_name) for one in record.entity)), record.key


def _scram_key(
    record: records.UserScramCredentialRecord | records.RemoveUserScramCredentialRecord,
) -> tuple[str, int]:
    return record.name, record.mechanism


# Record, where it is kept, its key, and the record that removes it: its tombstone has the same key.
_TABLE: tuple[tuple[type, str, Callable[[Any], Any], type | None], ...] = (
    (records.RegisterBrokerRecord, "brokers", attrgetter("broker_id"), records.UnregisterBrokerRecord),
    (records.RegisterControllerRecord, "controllers", attrgetter("controller_id"), records.UnregisterControllerRecord),
    (records.ClientQuotaRecord, "quotas", _quota_key, None),
    (records.AccessControlEntryRecord, "acls", attrgetter("id"), records.RemoveAccessControlEntryRecord),
    (records.UserScramCredentialRecord, "scram", _scram_key, records.RemoveUserScramCredentialRecord),
    (records.DelegationTokenRecord, "tokens", attrgetter("token_id"), records.RemoveDelegationTokenRecord),
)
_KINDS = {record: (kept, key) for record, kept, key, _ in _TABLE}
_TOMBSTONES = {tombstone: (kept, key) for _, kept, key, tombstone in _TABLE if tombstone is not None}
_OF_SCRAM = (records.UserScramCredentialRecord, records.RemoveUserScramCredentialRecord)
_CHANGES: dict[type, Callable[[KeptRecords, Any], None]] = {
    records.BrokerRegistrationChangeRecord: KeptRecords._change_registration,
    records.FenceBrokerRecord: KeptRecords._fence,
    records.UnfenceBrokerRecord: KeptRecords._fence,
    records.ZkMigrationStateRecord: KeptRecords._zk_migration,
}
