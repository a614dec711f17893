"""The tables of the pipeline once more, in plain Python: what every table of `pipeline` is compared with.

It shares no code with `pipeline`, `protocol` or `storage`: batches are read by kafka-python, the consumer protocol's
bytes by kio, the records of `__consumer_offsets` by a small reader of its own. Everything is lists of dicts and folds
with dictionaries, slow and easy to follow. Moments are epoch milliseconds; rows have the columns of the tables.
"""

from tests.pipeline.oracle.epochs import fold as consumer_epochs
from tests.pipeline.oracle.files import Batch, LogDirectory, PartitionLog, Record
from tests.pipeline.oracle.growth import groups, growth, growth_partitions
from tests.pipeline.oracle.ledger import LEDGER, ledger_rebalances, with_ledger
from tests.pipeline.oracle.positions import lag, stuck, worst_lag
from tests.pipeline.oracle.records import group_records
from tests.pipeline.oracle.tables import (
    consumer_group_records,
    group_generations,
    membership,
    offset_commits,
    offset_resets,
    rebalances,
    state_at,
    transactional_commits,
)

__all__ = [
    "LEDGER",
    "Batch",
    "LogDirectory",
    "PartitionLog",
    "Record",
    "consumer_epochs",
    "consumer_group_records",
    "group_generations",
    "group_records",
    "groups",
    "growth",
    "growth_partitions",
    "lag",
    "ledger_rebalances",
    "membership",
    "offset_commits",
    "offset_resets",
    "rebalances",
    "state_at",
    "stuck",
    "transactional_commits",
    "with_ledger",
    "worst_lag",
]
