"""What installs the webhook: the chart, the plain manifests, the image, the shim's installer."""
