#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Breaks a real training run with a hang and shows it recover. Options are passed to `drill.py run hang`.
set -euo pipefail

scripts=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
python=$("$BASH" "$scripts/setup.sh" drills)
nvrx=${python##*/drills-nvrx-}
export PYTHONPYCACHEPREFIX=${python%/*/bin/python}/pycache # nothing is written beside the scripts
exec "$python" "$scripts/drill.py" run hang --nvrx "${nvrx%%/*}" "$@"
