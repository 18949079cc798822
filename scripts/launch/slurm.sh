#!/usr/bin/env bash
#SBATCH --job-name=stapo
#SBATCH --nodes=8
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --requeue
# A Ray cluster of a SLURM job's nodes, and a command on the first of them. It finds the cluster by RAY_ADDRESS;
# submitted again, evaluations and reproductions go on where they were.
#
#   sbatch --nodes=4 slurm.sh stapo-bench eval --ckpt CHECKPOINT --decoding justrl --engine vllm --ray auto --out RUN
#   sbatch --nodes=8 scripts/launch/slurm.sh scripts/reproduce_table.sh --scale paper --nodes 8 --model 1.7b
set -euo pipefail
: "${1:?expected a command, such as stapo-bench eval --ray auto ...}"
cd "${SLURM_SUBMIT_DIR:-$(dirname "$0")/../..}"
port="${RAY_PORT:-6379}"
mapfile -t hosts < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
head="${hosts[0]}"
address="$(srun --nodes=1 --ntasks=1 -w "$head" hostname --ip-address | awk '{print $1}'):$port"

# A step has one core unless it asks for more; --block keeps it alive, and the cluster ends with the job.
start_ray() {
    srun --nodes=1 --ntasks=1 --cpus-per-task="$SLURM_CPUS_ON_NODE" -w "$1" ray start "${@:2}" \
        --disable-usage-stats --block &
}
start_ray "$head" --head --port="$port"
sleep 20
for host in "${hosts[@]:1}"; do start_ray "$host" --address="$address"; done
sleep 20
RAY_ADDRESS="$address" "$@"
