"""Settings, where they come from, and the configs of topics."""
