"""What the broker costs: one script per question, each also asked of Apache Kafka with `--against kafka`."""
