"""What becomes of pods, and where it is reported, when something around the webhook goes wrong."""
