"""What the metadata log says besides topics and configs, as its records: they stand in snapshots as they are.

Registrations, quotas, SCRAM credentials, delegation tokens, ACLs, the state of a migration from ZooKeeper. Not all
of it is acted upon here; Apache Kafka finds all again when it is started on the directory.

Source: Kafka's ClusterDelta, ClientQuotasDelta, ScramDelta, DelegationTokenDelta, AclsDelta.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from broker.catalogue.acls import value_of
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
        rule = _RULES.get(type(record))
        if rule is not None:
            rule(self, record)

    def _register_broker(self, record: records.RegisterBrokerRecord) -> None:
        self.brokers[record.broker_id] = record

    def _unregister_broker(self, record: records.UnregisterBrokerRecord) -> None:
        self.brokers.pop(record.broker_id, None)

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

    def _register_controller(self, record: records.RegisterControllerRecord) -> None:
        self.controllers[record.controller_id] = record

    def _unregister_controller(self, record: records.UnregisterControllerRecord) -> None:
        self.controllers.pop(record.controller_id, None)

    def _zk_migration(self, record: records.ZkMigrationStateRecord) -> None:
        self.zk_migration_state = record.zk_migration_state

    def _quota(self, record: records.ClientQuotaRecord) -> None:
        key = (tuple(sorted((one.entity_type, one.entity_name) for one in record.entity)), record.key)
        if record.remove:
            self.quotas.pop(key, None)
        else:
            self.quotas[key] = record

    def _acl(self, record: records.AccessControlEntryRecord) -> None:
        self.acls[record.id] = record
        self.acl_ids[value_of(record)] = record.id

    def _remove_acl(self, record: records.RemoveAccessControlEntryRecord) -> None:
        gone = self.acls.pop(record.id, None)
        if gone is not None and self.acl_ids.get(value_of(gone)) == record.id:
            del self.acl_ids[value_of(gone)]

    def _scram(self, record: records.UserScramCredentialRecord) -> None:
        self.scram[record.name, record.mechanism] = record
        self.scram_changes += 1

    def _remove_scram(self, record: records.RemoveUserScramCredentialRecord) -> None:
        self.scram.pop((record.name, record.mechanism), None)
        self.scram_changes += 1

    def _token(self, record: records.DelegationTokenRecord) -> None:
        self.tokens[record.token_id] = record

    def _remove_token(self, record: records.RemoveDelegationTokenRecord) -> None:
        self.tokens.pop(record.token_id, None)


_RULES: dict[type, Callable[[KeptRecords, Any], None]] = {
    records.RegisterBrokerRecord: KeptRecords._register_broker,
    records.UnregisterBrokerRecord: KeptRecords._unregister_broker,
    records.BrokerRegistrationChangeRecord: KeptRecords._change_registration,
    records.FenceBrokerRecord: KeptRecords._fence,
    records.UnfenceBrokerRecord: KeptRecords._fence,
    records.RegisterControllerRecord: KeptRecords._register_controller,
    records.UnregisterControllerRecord: KeptRecords._unregister_controller,
    records.ZkMigrationStateRecord: KeptRecords._zk_migration,
    records.ClientQuotaRecord: KeptRecords._quota,
    records.AccessControlEntryRecord: KeptRecords._acl,
    records.RemoveAccessControlEntryRecord: KeptRecords._remove_acl,
    records.UserScramCredentialRecord: KeptRecords._scram,
    records.RemoveUserScramCredentialRecord: KeptRecords._remove_scram,
    records.DelegationTokenRecord: KeptRecords._token,
    records.RemoveDelegationTokenRecord: KeptRecords._remove_token,
}
