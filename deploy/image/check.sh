#!/bin/sh
# Tests an installation as the current user: check.sh PREFIX
set -eu
prefix=${1:?usage: check.sh PREFIX}

[ "$(id -u)" -ne 0 ] || { echo "check.sh: run it as another user than root" >&2; exit 1; }
[ ! -w "$prefix/bin" ] || { echo "check.sh: $prefix can be written to by $(id -u)" >&2; exit 1; }
cd /
"$prefix/bin/vgpu-webhook" --version
"$prefix/bin/vgpu-webhook" vendors > /dev/null
# Modules that are imported late, too.
"$prefix/bin/python3" -c 'import certs.serving, webhook.cli.commands.serve, webhook.cluster.client.connection, webhook.replica.run'
[ -z "$(find "$prefix" -newermt "@$((${SOURCE_DATE_EPOCH:-0} + 1))" -print -quit)" ] ||
    { echo "check.sh: something in $prefix was written after it was installed" >&2; exit 1; }
