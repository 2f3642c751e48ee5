#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what the commands need into a cache folder of its own: setup.sh [checkers|drills|tests] [--nvrx VERSION]
set -euo pipefail

scripts=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)

if [[ -n ${MBRIDGE_RESILIENCY_CACHE:-} ]]; then
  MBRIDGE_RESILIENCY_CACHE=$(realpath --canonicalize-missing -- "$MBRIDGE_RESILIENCY_CACHE")
  export MBRIDGE_RESILIENCY_CACHE
fi
cd -- "$scripts" # python -m imports from here, and not from the user's project
exec python3 -B -m mbridge_resiliency.environments.install "$@"
