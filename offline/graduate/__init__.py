"""`kohort graduate`: can Apache Kafka be started on a stopped directory, and with which `server.properties`.

`directory` looks at the whole, `metadata` at the metadata log, `partition_files` at the files of one partition,
`targets` knows the versions of Kafka, `properties` writes `server.properties`, `command` is the command line.
"""
