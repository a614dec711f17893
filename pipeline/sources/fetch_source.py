"""Format `kohort-kafka`: a live broker, asked with Fetch."""
