"""What the broker costs: one script per question, each also asked of others with `--against kafka,kfake,mock`."""
