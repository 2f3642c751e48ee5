# SPDX-License-Identifier: Apache-2.0
ft_launcher --nnodes=$N --nproc-per-node=$G --max-restarts=3 --rdzv-backend=c10d \
  --rdzv-endpoint=$MASTER_ADDR:$MASTER_PORT --rdzv-id=$JOBID \
  --ft-rank-section-timeouts=setup:600,step:180,checkpointing:420,warmup:600 \
  --ft-rank-out-of-section-timeout=600 train.py
