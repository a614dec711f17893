"""Topics, configs and producer ids, kept in Kafka's own `__cluster_metadata` log.

`metadata_log` is the file, `cluster_state` what its records add up to, `topic_changes` and `config_changes` the rules
of what may change, and `catalogue` the one queue through which every change goes.
"""
