"""A checkpoint to stored samples: what is missing is sampled, graded on the way, and stopped when settled."""

from stapo_bench.sampling.continuation import continue_run
from stapo_bench.sampling.engine_cache import Opener, open_for
from stapo_bench.sampling.evaluation import evaluate, prepare, sampling_params
from stapo_bench.sampling.generate import draw, look, shard_label, sole_writer
from stapo_bench.sampling.identity import run_about, run_identity
from stapo_bench.sampling.judging import PREFIX, judge_run, open_judge
from stapo_bench.sampling.options import EvalOptions
from stapo_bench.sampling.progress import Ticker, duration
from stapo_bench.sampling.work import Work, requests
