# SPDX-License-Identifier: Apache-2.0
"""The Python environments that the commands run in, all in one folder outside the skill's own.

requirements/ holds every pinned version; install.py makes an environment from those files and is what
setup.sh runs. Standard library only: it runs before anything is installed.
"""

import sys

if sys.version_info < (3, 10):
    sys.stderr.write("setup.sh: needs Python 3.10 or newer as python3 on PATH; this is %s\n" % sys.version.split()[0])
    sys.exit(2)
