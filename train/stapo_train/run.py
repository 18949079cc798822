"""The training loop, top to bottom. Read this file first: it is the whole algorithm.

    stapo-train train/configs/tiny/stapo.yaml

One iteration: sample a group of rollouts per prompt -> reward each 0 or 1 -> advantage of each against its group ->
log-probs of the policy that sampled them -> for each mini-batch: select tokens, loss, one optimizer step -> StepRecord.
arXiv:2602.15620 (STAPO) is this loop with ``objective.name: stapo``; GRPO, JustRL and 20-Entropy differ in the
objective alone.

How it differs from a textbook PPO loop: no value model (the group's mean is the baseline), no KL penalty unless the
objective asks for one, old log-probs come from the trainer's own forward pass and not from the sampling engine, and
every random number is a hash of (seed, purpose, iteration, ...), so a run that was killed and is resumed computes the
same numbers.
"""

import math
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from stapo_bench.engines import Engine
from stapo_bench.errors import StapoError
from stapo_bench.grading import GraderPool
from stapo_bench.records import Problem
from stapo_bench.runs import folder_label, read_checkpoint
from stapo_train import training_log
from stapo_train.batch import Batch, collate
from stapo_train.config import OptimConfig, TrainConfig, UpdateConfig
from stapo_train.correction import BOUNDS, correct, engine_log_probs
from stapo_train.data import load_problems, problem_indices
from stapo_train.inspect.dump import DumpedRun, save_dump
from stapo_train.objective import ONE_PROCESS, Objective, mean
from stapo_train.objectives import for_run
from stapo_train.policy import Policy, load_model
from stapo_train.prompts import check_lengths, render, short_enough
from stapo_train.reward import grade, with_overlong_penalty
from stapo_train.rollout import free_memory, load_weights, open_engine, sample_rollouts
from stapo_train.rollout_files import drop_rollouts, load_rollouts, save_rollouts
from stapo_train.run_folder import Labels, RunFolder, TrainState, load_state, opened_folder
from stapo_train.trackers import open_trackers
from stapo_train.train_records import Rollout, StepRecord, UpdateRecord
from stapo_train.update import Step, optimizer_step


def train(config: TrainConfig, *, resume: bool = False, dump_iterations: Sequence[int] = ()) -> Path:
    """Run ``config`` to its end, from the state that its folder holds; return the final checkpoint.

    Args:
        config: what to compute.
        resume: continue from the folder's last checkpoint, if there is one.
        dump_iterations: whose last mini-batch is kept for ``replay``, ``sweep`` and ``audit``.

    Raises:
        StapoError: what the user can act on, in one line.
    """
    with opened_folder(config, resume=resume) as folder:
        if not folder.tidy_finished():
            train_in(folder, config, dump_iterations)
        return folder.final


def train_in(folder: RunFolder, config: TrainConfig, dump_iterations: Sequence[int] = ()) -> None:
    """``train`` in a folder that is open, and not finished."""
    start = folder.latest()
    objective = for_run(config.objective, seed=config.seed, max_new_tokens=config.rollout.max_new_tokens)
    problems = load_problems(config.data, config.seed)
    model, tokenizer = load_model(start or Path(config.model), config)
    check_lengths(problems, config, tokenizer)
    optimizer = make_optimizer(model, config.optim)
    state = load_state(start, model, optimizer) if start else TrainState()
    training_log.keep_until(folder.metrics, state.iteration)
    policy = Policy(
        model=model,
        temperature=config.rollout.temperature,
        micro_batch_tokens=config.update.micro_batch_tokens,
        autocast=config.autocast,
        packed=config.attention != "sdpa",
    )
    problems = short_enough(problems, config, tokenizer)
    # vLLM takes its memory at once, and wants to know how much a sequence needs.
    prompts = render(problems, config, tokenizer) if config.rollout.engine == "vllm" else ()
    run = Run(
        config=config,
        objective=objective,
        problems=problems,
        tokenizer=tokenizer,
        engine=open_engine(config, start or Path(config.model), model, tokenizer, prompts),
        graders=GraderPool(config.reward.workers, grader=config.reward.grader),
        policy=policy,
        reference=replace(policy, model=load_model(Path(config.model), config)[0])
        if objective.needs_reference
        else None,
        optimizer=optimizer,
        folder=folder.path,
        dump_iterations=tuple(dump_iterations),
    )
    print(training_log.describe(config, objective), file=sys.stderr)
    checkpoint_labels = labels(objective, Path(config.model))
    trackers = open_trackers(config)
    progress = training_log.ProgressLine(state.iteration, config.iterations, stream=sys.stderr)
    notice = training_log.ZeroGradientNotice(sys.stderr)
    with run.graders, closing(run.engine):
        while state.iteration < config.iterations:
            state, record = iterate(run, state)
            training_log.append(folder.metrics, record)
            progress.show(record)
            notice.see(record)
            for track in trackers:
                track(record)
            if state.skipped_in_row >= config.update.max_skipped_in_row:
                raise StapoError(
                    f"{folder.path}: {state.skipped_in_row} optimizer steps in a row had no finite gradient, the last "
                    f"with {record.skipped_updates[-1]}; lower optim.lr; their batches are in {folder.path / 'skipped'}"
                )
            final = state.iteration == config.iterations
            if final or state.iteration % config.checkpoint.every == 0:
                folder.save(state, model, tokenizer, optimizer, checkpoint_labels, final=final)
                drop_rollouts(folder.path, state.iteration)


@dataclass(frozen=True, kw_only=True)
class Run:
    """What stays the same over a run's iterations, except the weights inside ``policy``."""

    config: TrainConfig
    objective: Objective
    problems: Sequence[Problem]
    tokenizer: Any
    engine: Engine
    graders: GraderPool
    policy: Policy
    reference: Policy | None  # the model the run began with; None: the objective has no use for it
    optimizer: torch.optim.Optimizer
    folder: Path
    dump_iterations: tuple[int, ...]


def iterate(run: Run, state: TrainState) -> tuple[TrainState, StepRecord]:
    """One iteration: rollouts, rewards, advantages, old log-probs, one optimizer step per mini-batch."""
    config, iteration = run.config, state.iteration + 1
    watch = training_log.Stopwatch()

    rollouts, num_asked = informative_rollouts(run, state.position, iteration, watch)

    with watch("old_log_probs"):
        rewards, group_ids = np.array([r.reward for r in rollouts]), np.array([r.group_id for r in rollouts])
        lengths = np.array([len(r.response_ids) for r in rollouts])
        advantages = run.objective.advantages(rewards, group_ids, lengths)
        batch = collate(rollouts, advantages, torch.float32, run.policy.device)
        old = run.policy.measure(batch)
        reference = run.reference.measure(batch).log_probs if run.reference else None
        stats = replace(
            old,
            old_log_probs=old.log_probs,
            ref_log_probs=reference,
            batch_entropy=torch.full_like(old.entropy, mean(old.entropy, ONE_PROCESS)),
        )
        if run.objective.min_p is not None:
            stats = replace(stats, proxy_log_probs=run.policy.proxy_log_probs(batch, run.objective.min_p))
        batch, trained_on = corrected(replace(batch, stats=stats), rollouts, config.update)

    with watch("update"):
        learning_rate = set_learning_rate(run.optimizer, config.optim, iteration)
        updates, skipped_in_row = update(run, batch, trained_on, state.skipped_in_row, iteration)

    record = training_log.step_record(iteration, rollouts, old, updates, learning_rate=learning_rate, watch=watch)
    record = replace(record, num_rejected=len(rollouts) - len(trained_on))
    position = state.position + num_asked
    return TrainState(iteration=iteration, position=position, skipped_in_row=skipped_in_row), record


def informative_rollouts(
    run: Run, position: int, iteration: int, watch: training_log.Stopwatch
) -> tuple[list[Rollout], int]:
    """Graded rollouts of ``rollout.prompts`` groups, and how many prompts that took.

    With dynamic sampling (``rollout.max_rounds`` above 1) groups that are all right or all wrong are replaced by new
    ones until the rounds are spent; places still missing are filled with such groups. The overlong penalty comes after,
    so that lengths alone do not make a group informative: arXiv:2503.14476, Eq. 11, asks for 0 < number correct < G.
    """
    stored = load_rollouts(run.folder, iteration)
    if stored is not None:  # sampled before a kill, by the same weights
        return stored
    config = run.config
    wanted, asked = config.rollout.prompts, 0
    informative: list[list[Rollout]] = []
    equal: list[list[Rollout]] = []
    with watch("rollout"):
        load_weights(run.engine, run.policy.model)
    for _ in range(config.rollout.max_rounds):
        with watch("rollout"):
            problems = [
                run.problems[i]
                for i in problem_indices(len(run.problems), config.seed, position + asked, wanted - len(informative))
            ]
            prompts = render(problems, config, run.tokenizer)
            sampled = sample_rollouts(
                run.engine, prompts, config.rollout, seed=config.seed, iteration=iteration, first_group=asked
            )
        with watch("reward"):
            golds = {group: problem.asked_gold for group, problem in enumerate(problems, start=asked)}
            graded = grade(sampled, golds, run.graders)
        for group in golds:
            members = [r for r in graded if r.group_id == group]
            differ = len({r.reward for r in members if not math.isnan(r.reward)}) > 1
            (informative if differ else equal).append(members)
        asked += len(problems)
        if len(informative) == wanted:
            break
    free_memory(run.engine)
    # Group ids count from 0 without gaps again, in the order in which the groups were asked.
    groups = sorted(informative + equal[: wanted - len(informative)], key=lambda members: members[0].group_id)
    rollouts = [replace(r, group_id=number) for number, members in enumerate(groups) for r in members]
    if config.reward.overlong_buffer is not None:
        rollouts = with_overlong_penalty(rollouts, config.rollout.max_new_tokens, config.reward.overlong_buffer)
    save_rollouts(run.folder, iteration, rollouts, asked)
    return rollouts, asked


def update(
    run: Run, batch: Batch, rollouts: Sequence[Rollout], skipped_in_row: int, iteration: int
) -> tuple[list[UpdateRecord], int]:
    """The optimizer steps of an iteration: mini-batches of whole groups, in the order of their prompts.

    ``skipped_in_row`` is counted on from the iteration before; where it reaches its limit, the rest is left out.
    """
    updates: list[UpdateRecord] = []
    settings = run.config.update
    groups_each = run.config.rollout.prompts // settings.mini_batches
    for number, phase in run.objective.schedule(settings.mini_batches):
        rows = [row for row, rollout in enumerate(rollouts) if rollout.group_id // groups_each == number]
        mini_batch, sampled = batch.select_rows(rows), [rollouts[row] for row in rows]
        if iteration in run.dump_iterations and number == settings.mini_batches - 1 and phase == 0:
            dump(run, mini_batch, sampled, run.folder / "dumps" / f"iteration-{iteration:06d}")
        step = Step(
            objective=run.objective,
            clip_norm=run.config.optim.clip_norm,
            method=settings.selection,
            first=not updates,
            phase=phase,
        )
        updates.append(optimizer_step(run.policy, run.optimizer, mini_batch, step))
        if updates[-1].skipped is None:
            skipped_in_row = 0
            continue
        skipped_in_row += 1
        dump(run, mini_batch, sampled, run.folder / "skipped" / f"iteration-{iteration:06d}-update-{len(updates)}")
        if skipped_in_row >= settings.max_skipped_in_row:
            break
    return updates, skipped_in_row


def corrected(batch: Batch, rollouts: Sequence[Rollout], settings: UpdateConfig) -> tuple[Batch, Sequence[Rollout]]:
    """The batch and its rollouts, corrected for the mismatch with the engine that sampled, where the config asks."""
    if settings.correction_used is None:
        return batch, rollouts
    kind, bounds = settings.correction_used
    log_ratio = batch.stats.old_log_probs - engine_log_probs(rollouts, batch.stats.old_log_probs)
    found = correct(log_ratio, batch.stats.sequence, len(rollouts), kind, bounds or BOUNDS[kind])
    rows = found.kept.nonzero().flatten().tolist()
    batch = replace(batch, stats=replace(batch.stats, importance=found.weights))
    return (batch, rollouts) if len(rows) == len(rollouts) else (batch.select_rows(rows), [rollouts[r] for r in rows])


# --- parts -----------------------------------------------------------------------------------------------------------


def make_optimizer(model: Any, config: OptimConfig) -> torch.optim.AdamW:
    """AdamW over all parameters alike; fused on a GPU, where the usual one makes a copy of every second moment."""
    return torch.optim.AdamW(
        model.parameters(),
        lr=config.lr,
        betas=config.betas,
        eps=config.eps,
        weight_decay=config.weight_decay,
        fused=True if model.device.type == "cuda" else None,
    )


def set_learning_rate(optimizer: torch.optim.Optimizer, config: OptimConfig, iteration: int) -> float:
    """Linear warm-up over iterations, counted from 1, then constant."""
    learning_rate = config.lr * min(1.0, iteration / max(config.warmup_iterations, 1))
    for group in optimizer.param_groups:
        group["lr"] = learning_rate
    return learning_rate


def dump(run: Run, mini_batch: Batch, rollouts: Sequence[Rollout], folder: Path) -> None:
    """Save a mini-batch with the weights before its step."""
    config = run.config
    about = DumpedRun(
        objective=dict(config.objective),
        seed=config.seed,
        max_new_tokens=config.rollout.max_new_tokens,
        temperature=config.rollout.temperature,
        config_digest=config.digest(),
    )
    save_dump(folder, mini_batch, run.policy.model, run.tokenizer, about, rollouts=rollouts)


def labels(objective: Objective, base: Path) -> Labels:
    """The labels of the run's checkpoints."""
    start = read_checkpoint(base)
    return Labels(method=objective.label, base=start.model or folder_label(base), base_digest=start.digest)
