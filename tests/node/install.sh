#!/bin/sh
# Installs what the tests need, most of it those of tests/node, from Debian or Ubuntu, and nothing that is there already. It needs root.
#
#   sudo tests/node/install.sh
#
#   runc        starts containers; it has to be built with seccomp, as Debian's is
#   buildah     builds the product's image without a daemon
#   debootstrap makes the base image from Debian packages, so that no container registry is needed
#   iptables    for kube-proxy, and for the addresses of pods
#   conntrack   for kube-proxy
#   iproute2    makes the network namespace that the node lives in
#   gcc, libc6-dev, musl-tools  build the programs that run in the containers of the tests
#   zsh, fish   complete commands in tests/cli
#   chromium    shows the playground in tests/playground, unless there is Google's own: Ubuntu has it only as a snap
set -eu
packages='runc buildah debootstrap iptables conntrack iproute2 gcc libc6-dev musl-tools zsh fish'
command -v google-chrome > /dev/null || packages="$packages chromium"

missing=
for package in $packages; do
    state=$(dpkg-query --show --showformat '${db:Status-Abbrev}' "$package" 2> /dev/null || true)
    [ "$state" = 'ii ' ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

[ "$(id -u)" -eq 0 ] || { echo "install.sh: these are missing, and need root to be installed:$missing" >&2; exit 1; }
export DEBIAN_FRONTEND=noninteractive
apt-get update --quiet=2
# shellcheck disable=SC2086 # a list of names
apt-get install --quiet=2 --yes --no-install-recommends $missing
