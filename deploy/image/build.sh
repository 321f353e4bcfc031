#!/bin/sh
# Builds the wheel: build.sh SOURCE WHEELS
#
# SOURCE is only read. Build tools are installed beside WHEELS, from the lock file, and left there. The same
# source gives the same bytes: times in the wheel are SOURCE_DATE_EPOCH, or else the earliest that the format permits.
set -eu
source=$(cd -- "${1:?usage: build.sh SOURCE WHEELS}" && pwd)
wheels=${2:?usage: build.sh SOURCE WHEELS}
mkdir -p -- "$wheels"
wheels=$(cd -- "$wheels" && pwd)
tools=$wheels/.tools

umask 022
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PYTHONDONTWRITEBYTECODE=1
python3 -m venv "$tools"
"$tools/bin/pip" install --quiet --require-hashes --only-binary :all: -r "$source/deploy/image/build-requirements.txt"
"$tools/bin/pip" wheel --quiet --no-deps --no-build-isolation --wheel-dir "$wheels" "$source"
