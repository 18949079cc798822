#!/usr/bin/env bash
# One evaluation on a whole Ray cluster: vLLM serves the checkpoint on every GPU by its own data parallelism, and one
# process asks it for all samples. Stopped and started again, it goes on where it was.
#
#   scripts/launch/evaluate.sh CHECKPOINT training|justrl RUN ENGINES TENSOR_PARALLEL [ENGINES_PER_NODE]
#
# ENGINES_PER_NODE is needed where ENGINES are more than one node's: vLLM else wants all of them on the first.
# From the environment: SERVE_BACKEND=mp (one machine, no Ray), BASE_URL=http://host:port/v1 (a server of yours),
# EVAL_OPTIONS="--tasks aime24 --limit 5" (more options of stapo-bench eval), DTYPE, MAX_MODEL_LEN, PORT.
set -euo pipefail
checkpoint="$1" regime="$2" run="$3" engines="$4" tensor_parallel="$5" local_engines="${6:-$4}"
port="${PORT:-8000}"
export RAY_ADDRESS="${RAY_ADDRESS:-auto}"

if [ -z "${BASE_URL:-}" ]; then
    # 20,480 new tokens and the longest prompt fit 24,576. Sampling settings are the evaluation's, none the server's.
    # Its FlashInfer sampler is compiled at every start and never used by requests with a seed, which ours have.
    VLLM_USE_FLASHINFER_SAMPLER=0 vllm serve "$checkpoint" --port "$port" --data-parallel-size "$engines" \
        --data-parallel-size-local "$local_engines" --tensor-parallel-size "$tensor_parallel" \
        --data-parallel-backend "${SERVE_BACKEND:-ray}" --max-model-len "${MAX_MODEL_LEN:-24576}" \
        --dtype "${DTYPE:-bfloat16}" --logprobs-mode processed_logprobs --generation-config vllm &
    server=$!
    trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true' EXIT
    BASE_URL="http://127.0.0.1:$port/v1"
    until python -c "import urllib.request as u; u.urlopen('$BASE_URL/models', timeout=5)" 2>/dev/null; do
        if ! kill -0 "$server" 2>/dev/null; then
            echo "scripts/launch/evaluate.sh: vllm serve ended before it was ready" >&2
            exit 1
        fi
        sleep 5
    done
fi

# An engine wants 128 requests at once.
stapo-bench eval --ckpt "$checkpoint" --decoding "$regime" --engine openai --base-url "$BASE_URL" \
    --slots "$((engines * 128))" --out "$run" ${EVAL_OPTIONS:-} >/dev/null
stapo-bench score "$run"
touch "$run/finished"
