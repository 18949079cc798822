"""Rollouts for verl's trainer on a CPU, ``actor_rollout_ref.rollout.name=cpu``: its own are drawn by vLLM or SGLang.

One Ray actor per replica holds a transformers model, draws request by request, and takes new weights from the worker.
"""

import math
from itertools import count

import ray
import torch
import transformers
from verl.workers.rollout.base import _ROLLOUT_REGISTRY, BaseRollout
from verl.workers.rollout.replica import RolloutReplica, RolloutReplicaRegistry, TokenOutput

from stapo_train.integrations.verl_reward import compute_score as real_compute_score


def name_of(replica_rank: int) -> str:
    return f"rollouts-{replica_rank}"


@ray.remote(num_cpus=0)
class Server:
    def __init__(self, path: str, limit: int):
        torch.set_num_threads(1)
        torch.manual_seed(0)
        self.model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
        self.limit, self.step = limit, None

    def load(self, weights: dict[str, torch.Tensor], step: int) -> None:
        missing, unexpected = self.model.load_state_dict(weights, strict=False)
        assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
        self.step = step

    @torch.no_grad()
    def generate(self, request_id, prompt_ids, sampling_params, **_) -> TokenOutput:
        assert self.step is not None, "expected weights from the trainer before the first request"
        found = self.model.generate(
            torch.tensor([prompt_ids]), do_sample=True, temperature=sampling_params["temperature"], top_k=0,
            top_p=sampling_params["top_p"], max_new_tokens=self.limit, return_dict_in_generate=True,
            output_logits=True,
        )  # fmt: skip
        drawn = found.sequences[0, len(prompt_ids) :]
        logits = torch.stack(found.logits, dim=1)[0].float() / sampling_params["temperature"]  # [n, V]
        log_probs = logits.log_softmax(-1).gather(-1, drawn.unsqueeze(-1)).squeeze(-1)
        return TokenOutput(
            token_ids=drawn.tolist(), log_probs=log_probs.tolist(), stop_reason="completed",
            extra_fields={"global_steps": self.step},
        )  # fmt: skip

    def nothing(self, **_) -> None:
        pass

    wake_up = sleep = abort_all_requests = resume_generation = clear_kv_cache = nothing


class Replica(RolloutReplica):
    async def launch_servers(self):
        server = Server.options(name=name_of(self.replica_rank)).remote(
            self.model_config.path, self.config.response_length
        )
        self.servers, self._server_handle, self._server_address = [server], server, name_of(self.replica_rank)


class Rollout(BaseRollout):
    """The worker's side: hands its weights to its replica."""

    async def resume(self, tags):
        pass

    async def release(self):
        pass

    async def update_weights(self, weights, global_steps=None, **_):
        whole = {name: value.cpu() for name, value in weights}  # every rank takes part in gathering them
        await ray.get_actor(name_of(torch.distributed.get_rank())).load.remote(whole, global_steps)


_ROLLOUT_REGISTRY["cpu", "async"] = f"{__name__}.Rollout"
RolloutReplicaRegistry.register("cpu", lambda: Replica)


_calls = count()


def compute_score(*, solution_str: str, **others) -> dict[str, float]:
    """Ours with another score: a random model never answers, and every score would be 0. Each fourth is unknown."""
    found = real_compute_score(solution_str=solution_str, **others)
    assert found["score"] == 0.0
    return {**found, "score": float(len(solution_str) % 2) if next(_calls) % 4 else math.nan}
