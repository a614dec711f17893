"""Topics, configs and producer ids, kept in Kafka's own `__cluster_metadata` log.

`metadata_log` is the file, `cluster_state` what its records add up to, `opening` and `startup` how a start registers
itself in it, `topic_changes` and `config_changes` the rules of what may change, `requests` what may be asked for,
`catalogue` the one queue through which every change goes, and `topics_delta` what a change tells to those who listen.
`snapshots` are read, and `snapshot_writer` makes them, so that the log does not grow for ever.
"""
