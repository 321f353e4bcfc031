"""``python -m webhook`` is ``vgpu-webhook``."""

from webhook.cli import main

if __name__ == "__main__":
    main(prog_name="vgpu-webhook")
