#!/usr/bin/env bash
#SBATCH --job-name=stapo-paper
#SBATCH --nodes=8
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --requeue
# A Ray cluster over the job's nodes, and the reproduction on its head node. Submitted again, it goes on where it was.
#
#   sbatch --nodes=8 scripts/launch/slurm.sh --model 1.7b --gpus-per-node 8
set -euo pipefail
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
RAY_ADDRESS="$address" scripts/reproduce_table.sh --scale paper --nodes "$SLURM_JOB_NUM_NODES" "$@"
