# SPDX-License-Identifier: Apache-2.0
# The published direct command: a fixed GROUP_RANK, no restarts, no warmup.
export GROUP_RANK=0
ft_launcher \
    --rdzv_backend=c10d --rdzv_endpoint=${MASTER_ADDR}:${MASTER_PORT} \
    --nnodes=${NUM_NODES} --nproc-per-node=${GPUS} \
    --ft-rank_section_timeouts=setup:600,step:180,checkpointing:420 \
    --ft-rank_out_of_section_timeout=300 \
    train.py
