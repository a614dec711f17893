"""What works on a stopped data directory: `dump` prints its files, `graduate` prepares it for Apache Kafka."""
