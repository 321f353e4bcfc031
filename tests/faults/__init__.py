"""What becomes of pods, and who is told, when something around the webhook goes wrong."""
