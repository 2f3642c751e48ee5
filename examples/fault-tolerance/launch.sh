#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fault-tolerant training on one node, with all its GPUs:
#   bash launch.sh [overrides, for example train.train_iters=200]
#
# --max-restarts  is 0 by default: the hung rank would be found and killed, and the job would end there.
# --ft-cfg-path   holds the timeouts. Without section timeouts no hang is ever found.
# --ft-checkpoint-iteration-file  ends a job whose restarts save no new iteration (exit code 93 from NVRx 0.7.0 on,
#                 1 before): resubmitting such a job does not help.
set -euo pipefail
cd "$(dirname "$0")"
export CHECKPOINT_DIR="${CHECKPOINT_DIR:-$PWD/checkpoints}"

# exec: signals reach ft_launcher itself, and its exit code is the script's.
exec ft_launcher \
    --nnodes=1 \
    --nproc-per-node=gpu \
    --rdzv-backend=c10d \
    --rdzv-endpoint="localhost:${MASTER_PORT:-29500}" \
    --max-restarts=3 \
    --ft-cfg-path="${FT_CFG:-ft.yaml}" \
    --ft-checkpoint-iteration-file="$CHECKPOINT_DIR/latest_checkpointed_iteration.txt" \
    "${TRAIN:-train.py}" "$@"
