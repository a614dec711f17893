"""The process: server, connections, handlers, partition leaders, topics, settings."""
