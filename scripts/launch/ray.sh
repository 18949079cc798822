#!/usr/bin/env bash
# A Ray cluster by hand. This on every node, in the environment of what is to run on it.
#
#   scripts/launch/ray.sh head              # on the first; prints the address for the others
#   scripts/launch/ray.sh HEAD_ADDRESS      # on the others, such as 10.0.0.1:6379
#   scripts/launch/ray.sh stop              # on each, in the end
#
# Then, on the head node: stapo-bench eval --ray auto ..., or scripts/reproduce_table.sh --scale paper --nodes N ...
set -euo pipefail
case "${1:?expected head, the address of the head node, or stop}" in
    head) ray start --head --port="${RAY_PORT:-6379}" --disable-usage-stats ;;
    stop) ray stop ;;
    *) ray start --address="$1" --disable-usage-stats ;;
esac
