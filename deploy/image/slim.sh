#!/bin/sh
# Removes the generated API clients from an installed kubernetes package: slim.sh SITE_PACKAGES
#
# They are nine tenths of an environment: for each object and each group of the API a module, once for threads and once for
# asyncio. The webhook uses the package for kubeconfig files, credentials and the connection, and no generated module is
# imported before its name is used. Nothing else of the package is touched, so its version and its license stay what they
# say. A generated module that the webhook uses fails check.sh, which imports each name and rejects imports of whole clients.
set -eu
package=${1:?usage: slim.sh SITE_PACKAGES}/kubernetes

for client in "$package/client" "$package/aio/client"; do
    # Another version may be laid out differently: then somebody has to look again.
    [ -f "$client/models/__init__.py" ] && [ -f "$client/api/__init__.py" ] ||
        { echo "slim.sh: $client does not have the folders models and api" >&2; exit 1; }
    find "$client/models" "$client/api" -type f ! -name __init__.py -delete
done
find "$package" -type f -name '*_test.py' -delete
