"""Bytes to messages and back: schemas, codecs, record batches, error codes. No sockets, files, clocks or logging."""
