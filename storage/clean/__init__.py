"""Compaction: plan, pass, and taking over what it wrote."""
