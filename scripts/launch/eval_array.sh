#!/usr/bin/env bash
#SBATCH --job-name=stapo-eval
#SBATCH --nodes=1
#SBATCH --gpus-per-node=1
#SBATCH --array=0-15
#SBATCH --requeue
# One evaluation as a SLURM array: every task draws its own part of the samples into the same run folder, in its own
# files. A part that was killed is submitted again and goes on; when all are done, `stapo-bench score RUN`.
#
#   sbatch --array=0-15 scripts/launch/eval_array.sh --ckpt CHECKPOINT --decoding justrl --engine vllm --out RUN
set -euo pipefail
cd "${SLURM_SUBMIT_DIR:-$(dirname "$0")/../..}"
first="${SLURM_ARRAY_TASK_MIN:-0}"
exec stapo-bench eval "$@" --shard "$((SLURM_ARRAY_TASK_ID - first))/$SLURM_ARRAY_TASK_COUNT"
