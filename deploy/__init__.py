"""What installs the webhook. Nothing of it is in the package; `deploy.generate` writes the files that are made from others."""
