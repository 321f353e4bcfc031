"""The commands, one to a file: its options, and what it prints. `webhook.cli` imports each when it is called."""
