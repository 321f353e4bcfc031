"""The commands, one to a file: options in, text and exit code out. `webhook.cli` imports each when it is called."""
