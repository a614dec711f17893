"""Where records come from: segment files, a live broker, Spark's own connector."""
