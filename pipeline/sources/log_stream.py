"""The streaming reader of `kohort-log`."""
