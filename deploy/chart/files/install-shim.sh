#!/bin/sh
# Puts the library of the shim into a folder of the node, and keeps it there.
#
#   install-shim.sh install   once
#   install-shim.sh check     succeed if everything is installed
#   install-shim.sh keep      install, and check again every PERIOD seconds, until SIGTERM
#
# SOURCE   the library in this image; a pattern that matches one file
# VERSION  the name of its version: letters, digits, and . _ -
# TARGET   the folder, as mounted in this container
# PERIOD   seconds between checks
#
# Containers on the node have the library loaded while this runs. So a file is never written in place: it is written under a
# temporary name, compared, and renamed. A process that has mapped the old file keeps it, and a new process finds either
# the old file or the new one, complete. Old versions stay; only unfinished copies are removed, once they are older than
# an hour. Any number of installers may run at the same time.
set -eu
umask 022

LIBRARY=libvgpu.so
unfinished=

log() { echo "install-shim: $*" >&2; }
fail() { log "$*"; exit 1; }

find_source() {
    # Unquoted: SOURCE may be a pattern.
    # shellcheck disable=SC2086
    set -- $SOURCE
    [ $# -eq 1 ] || fail "$SOURCE matches $# files of the image: name one in shim.installer.path"
    [ -f "$1" ] && [ -s "$1" ] || fail "$1 is not in the image, or empty: name the library in shim.installer.path"
    source=$1
}

# put NAME COMMAND...: creates a file under a temporary name and renames it to NAME.
put() {
    name=$1
    shift
    unfinished=$TARGET/.unfinished.$name.$(uname -n).$$
    rm -f -- "$unfinished"
    "$@" "$unfinished" || fail "$unfinished cannot be written"
    # rename(2): a name leads to the old file or to the new one, and is never missing.
    mv -f -- "$unfinished" "$TARGET/$name" || fail "$TARGET/$name cannot be replaced"
    unfinished=
}

copy() {
    cp -- "$source" "$1" && chmod 0555 "$1" && cmp -s -- "$source" "$1" && sync_file "$1"
}

# A node that loses power must not come back with a name that leads to an empty file.
sync_file() { sync -- "$1" 2>/dev/null || sync; }

link() { ln -s -- "$LIBRARY.$VERSION" "$1"; }

write_version() { printf '%s\n' "$VERSION" > "$1"; }

installed() {
    cmp -s -- "$source" "$TARGET/$LIBRARY.$VERSION" &&
        [ "$(readlink -- "$TARGET/$LIBRARY" 2>/dev/null)" = "$LIBRARY.$VERSION" ] &&
        [ "$(cat -- "$TARGET/VERSION" 2>/dev/null)" = "$VERSION" ]
}

install() {
    installed && return
    [ -d "$TARGET" ] || mkdir -p -- "$TARGET" || fail "$TARGET cannot be created"
    # An unfinished copy of another installer may be gone before `find` looks at it, which then fails.
    find "$TARGET" -name '.unfinished.*' -mmin +60 -exec rm -f -- {} + 2>/dev/null || :
    [ ! -d "$TARGET/$LIBRARY" ] || fail "$TARGET/$LIBRARY is a folder: remove it from the node"
    cmp -s -- "$source" "$TARGET/$LIBRARY.$VERSION" || put "$LIBRARY.$VERSION" copy
    put "$LIBRARY" link
    put VERSION write_version
    log "$TARGET/$LIBRARY is version $VERSION"
}

clear_away() { [ -z "$unfinished" ] || rm -f -- "$unfinished"; }

: "${SOURCE:?}" "${VERSION:?}" "${TARGET:?}"
case $VERSION in *[!A-Za-z0-9._-]*) fail "VERSION $VERSION: only letters, digits, and . _ -" ;; esac
trap clear_away EXIT
trap 'exit 143' TERM
trap 'exit 130' INT
find_source

case ${1:-} in
    install) install ;;
    check) installed || exit 1 ;;
    keep)
        while :; do
            install
            # In the background, so that SIGTERM is handled at once.
            sleep "${PERIOD:-300}" &
            wait $!
        done
        ;;
    *) fail "usage: install-shim.sh install|check|keep" ;;
esac
