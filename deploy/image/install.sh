#!/bin/sh
# Installs a wheel and what it needs: install.sh SOURCE WHEELS PREFIX
#
# PREFIX becomes an environment of its own, without pip and what slim.sh removes, byte-compiled, its times fixed: the same
# wheel, lock file and Python give the same files. Nothing in it is written to when it runs.
set -eu
source=$(cd -- "${1:?usage: install.sh SOURCE WHEELS PREFIX}" && pwd)
wheels=$(cd -- "${2:?usage: install.sh SOURCE WHEELS PREFIX}" && pwd)
prefix=${3:?usage: install.sh SOURCE WHEELS PREFIX}

umask 022
# The order of sets in compiled files depends on hashes, which must not be random.
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PYTHONDONTWRITEBYTECODE=1 PYTHONHASHSEED=0
python3 -m venv --without-pip "$prefix"
pip="$wheels/.tools/bin/pip --python $prefix/bin/python3"
$pip install --quiet --no-compile --require-hashes --only-binary :all: -r "$source/deploy/image/requirements.txt"
$pip install --quiet --no-compile --no-deps --no-index "$wheels"/vgpu_webhook-*.whl
# This file contains the path from which the wheel was installed.
find "$prefix" -name direct_url.json -delete
"$source/deploy/image/slim.sh" "$("$prefix/bin/python3" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
# Compiled files that Python does not compare with the source, whose times were changed.
"$prefix/bin/python3" -m compileall -q --invalidation-mode unchecked-hash "$prefix/lib"
find "$prefix" -exec touch --no-dereference --date="@${SOURCE_DATE_EPOCH:-0}" {} +
