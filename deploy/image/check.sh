#!/bin/sh
# Tests an installation as the current user: check.sh PREFIX
set -eu
prefix=${1:?usage: check.sh PREFIX}

[ "$(id -u)" -ne 0 ] || { echo "check.sh: run it as another user than root" >&2; exit 1; }
[ ! -w "$prefix/bin" ] || { echo "check.sh: $prefix can be written to by $(id -u)" >&2; exit 1; }
cd /
"$prefix/bin/vgpu-webhook" --version
"$prefix/bin/vgpu-webhook" vendors > /dev/null
# Every module, and in functions every import: what slim.sh removes must be used by none.
"$prefix/bin/python3" "$(dirname -- "$0")/imports.py" certs webhook
[ -z "$(find "$prefix" -newermt "@$((${SOURCE_DATE_EPOCH:-0} + 1))" -print -quit)" ] ||
    { echo "check.sh: something in $prefix was written after it was installed" >&2; exit 1; }
