#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs all tests: the environments that they need are installed first. Options are passed to pytest.
set -euo pipefail

scripts=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
python=$("$BASH" "$scripts/setup.sh" tests)
"$BASH" "$scripts/setup.sh" drills --nvrx 0.7.0 >/dev/null
"$BASH" "$scripts/setup.sh" drills --nvrx 0.6.0 >/dev/null
export PYTHONPYCACHEPREFIX=${python%/*/bin/python}/pycache # nothing is written beside the scripts
cd -- "$scripts/.."
exec "$python" -m pytest -p no:cacheprovider "$@"
