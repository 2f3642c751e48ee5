# SPDX-License-Identifier: Apache-2.0
"""Where the tests find upstream: in the environment that setup.sh makes for the drills, the newest NVRx first.

Last on the path and in this process alone: nothing of the tests' own is hidden, and no subprocess inherits it.
"""

import sys

from mbridge_resiliency import cli

_SITE_PACKAGES = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
sys.path += [str(path) for path in sorted(cli.cache_dir().glob(f"drills-nvrx-*/{_SITE_PACKAGES}"), reverse=True)[:1]]
