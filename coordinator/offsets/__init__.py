"""Committed offsets: who may commit what, what a fetch sees, what expires, and what goes with a group or a topic.

Offsets change only by their records (`Shard.replay`): a rule says which records to write, and the table changes when
they are in the log. `inputs` lists what can happen, one module per input says what follows, `rules.RULES` maps the one
to the other.

Source: KIP-211, KIP-447, KIP-496; Kafka's OffsetMetadataManager.
"""
