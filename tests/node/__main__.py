"""``python -m tests.node`` builds what the tests on a node need, so that no test has to wait for it.

``python -m tests.node long`` also builds what only those with the marker `long` need.
"""

import contextlib
import sys

from tests.controlplane import build
from tests.deploy.before import NoVersionBeforeError, version_before
from tests.deploy.helm import VERSIONS, Helm
from tests.go_program import BinariesMissingError
from tests.parts import may_skip, not_skipped

from . import images, programs, small_images


def main() -> None:
    """Print where everything is, or why there can be no node here, with which the tests then are skipped."""
    reason = programs.why_not()
    if reason:
        said = f"no node can be started here: {reason}"
        if not may_skip("node"):
            sys.exit(not_skipped("node", said))
        sys.stdout.write(f"{said}\n")
        return
    try:
        built = programs.find()
        folders = (build.find().folder, built.kubernetes, built.runtime, Helm(VERSIONS[0]).program())
        for place in (*folders, *small_images.all_images(), images.product_image()):
            sys.stdout.write(f"{place}\n")
        if sys.argv[1:] == ["long"]:
            with contextlib.suppress(NoVersionBeforeError):
                sys.stdout.write(f"{images.image_before(version_before())}\n")
    except BinariesMissingError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
