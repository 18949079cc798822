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

On several ranks each process runs this file; what they hold together is in ``sharding``, how they agree is ``Reduce``.
The loop and its stages are one file, longer than others, so that the algorithm is read in one place.
"""

import math
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
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
from stapo_train.batch import Batch, collate, spread
from stapo_train.config import TrainConfig, UpdateConfig
from stapo_train.correction import BOUNDS, correct, engine_log_probs
from stapo_train.data import load_problems, problem_indices
from stapo_train.distributed import for_another_thread
from stapo_train.evaluation import eval_prompts, evaluate_checkpoint, is_evaluated
from stapo_train.inspect.dump import DumpedRun, save_dump
from stapo_train.objective import ONE_PROCESS, Objective, Reduce, mean
from stapo_train.objectives import for_run
from stapo_train.optimizer import make_optimizer, set_learning_rate
from stapo_train.policy import Policy, load_model
from stapo_train.prompts import check_lengths, render, short_enough
from stapo_train.reward import grade, with_overlong_penalty
from stapo_train.rollout import free_memory, load_weights, open_engine, sample_rollouts, weights_of_checkpoint
from stapo_train.rollout_files import drop_rollouts, from_all_ranks, load_rollouts, save_rollouts
from stapo_train.run_folder import Labels, RunFolder, TrainState, load_state, opened_folder
from stapo_train.sharding import weights_to_save
from stapo_train.trackers import Tracker, open_trackers, scalars
from stapo_train.train_records import Rollout, StepRecord, UpdateRecord
from stapo_train.update import Step, optimizer_step


def train(
    config: TrainConfig, *, resume: bool = False, dump_iterations: Sequence[int] = (), ranks: Reduce = ONE_PROCESS
) -> Path:
    """Run ``config`` to its end, from the state that its folder holds; return the final checkpoint.

    Args:
        config: what to compute.
        resume: continue from the folder's last checkpoint, if there is one.
        dump_iterations: whose last mini-batch is kept for ``replay``, ``sweep`` and ``audit``.
        ranks: the processes that train together, each of which calls this with the same config.

    Raises:
        StapoError: what the user can act on, in one line.
    """
    with opened_folder(config, resume=resume, ranks=ranks) as folder:
        if not folder.tidy_finished():
            train_in(folder, config, dump_iterations, ranks)
        return folder.final


def train_in(
    folder: RunFolder, config: TrainConfig, dump_iterations: Sequence[int] = (), ranks: Reduce = ONE_PROCESS
) -> None:
    """``train`` in a folder that is open, and not finished."""
    start = folder.latest()
    objective = for_run(config.objective, seed=config.seed, max_new_tokens=config.rollout.max_new_tokens)
    checkpoint_labels = labels(objective, Path(config.model))
    folder.check_base(start, checkpoint_labels.base_digest)
    problems = load_problems(config.data, config.seed)
    model, tokenizer = load_model(start or Path(config.model), config, ranks)
    check_lengths(problems, config, tokenizer)
    optimizer = make_optimizer(model, config.optim)
    state = load_state(start, model, optimizer) if start else TrainState()
    one_writes = ranks.rank == 0
    if one_writes:
        training_log.keep_until(folder.metrics, state.iteration)
    policy = Policy(
        model=model,
        temperature=config.rollout.temperature,
        micro_batch_tokens=config.update.micro_batch_tokens,
        autocast=config.autocast,
        offload=config.activation_offload,
        packed=config.attention != "sdpa",
        ranks=ranks,
    )
    problems = short_enough(problems, config, tokenizer)
    # vLLM takes its memory at once, and wants to know how much a sequence needs.
    prompts = (
        [*render(problems, config, tokenizer), *eval_prompts(config, tokenizer)]
        if config.rollout.engine == "vllm"
        else ()
    )
    run = Run(
        config=config,
        objective=objective,
        problems=problems,
        tokenizer=tokenizer,
        # An adapter is no model; an engine with weights of its own gets the merged ones before it draws.
        engine=open_engine(
            config, Path(config.model) if config.lora else start or Path(config.model), model, tokenizer, prompts
        ),
        graders=GraderPool(config.reward.workers, grader=config.reward.grader),
        policy=policy,
        reference=reference_of(policy, config) if objective.needs_reference else None,
        optimizer=optimizer,
        folder=folder.path,
        drawer=ThreadPoolExecutor(1),
        drawing_ranks=for_another_thread(ranks) if config.rollout.ahead else ranks,
        trackers=open_trackers(config) if one_writes else [],
        dump_iterations=tuple(dump_iterations),
    )
    if one_writes:
        print(training_log.describe(config, objective), file=sys.stderr)
    evaluated = [iteration for iteration in range(1, config.iterations + 1) if is_evaluated(config, iteration)]
    progress = training_log.ProgressLine(state.iteration, config.iterations, evaluated=evaluated, stream=sys.stderr)
    notice = training_log.ZeroGradientNotice(sys.stderr)
    check_drawn_ahead(folder.path, config, state)
    # In this order: an engine that is closed ends the drawing that nobody waits for any more.
    with run.graders, run.drawer, closing(run.engine):
        progress.evaluation(evaluate_after(run, state.iteration))  # the base's, or what a kill has left of the last one
        while state.iteration < config.iterations:
            state, record = iterate(run, state)
            if one_writes:
                training_log.append(folder.metrics, record)
                progress.show(record)
                notice.see(record)
            for track in run.trackers:
                track(record.iteration, scalars(record))
            if state.skipped_in_row >= config.update.max_skipped_in_row:
                raise StapoError(
                    f"{folder.path}: {state.skipped_in_row} optimizer steps in a row had no finite gradient, the last "
                    f"with {record.skipped_updates[-1]}; lower optim.lr; their batches are in {folder.path / 'skipped'}"
                )
            final = state.iteration == config.iterations
            if final or state.iteration % config.checkpoint.every == 0:
                folder.save(state, model, tokenizer, optimizer, checkpoint_labels, final=final and config.eval is None)
                if one_writes:
                    drop_rollouts(folder.path, state.iteration)
                progress.evaluation(evaluate_after(run, state.iteration))
        folder.finish()


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
    drawer: Executor  # draws ahead, beside the loop
    drawing_ranks: Reduce  # those of ``policy``, as the drawer reaches them
    trackers: Sequence[Tracker]
    dump_iterations: tuple[int, ...]


def evaluate_after(run: Run, iteration: int) -> float:
    """With ``eval``: draw what is missing of the evaluation of the checkpoint after an iteration, 0 for the base.

    Returns:
        Seconds that it took, also where it was finished before the run was stopped.
    """
    if not is_evaluated(run.config, iteration):
        return 0.0
    watch = training_log.Stopwatch()
    with watch("evaluation"), weights_of_checkpoint(run.engine, run.policy.model, run.config.rollout):
        found = evaluate_checkpoint(run.config, run.engine, iteration, sys.stderr, run.policy.ranks)
    seconds = watch.seconds["evaluation"]
    if iteration and found:
        metrics = run.folder / "metrics.jsonl"
        if (before := training_log.evaluation_seconds(metrics, iteration)) is not None:
            return before  # this time was that of finding nothing missing
        training_log.add_evaluation(metrics, iteration, found, watch)
        numbers = {f"evaluation/{name}": value for name, value in found.items()}
        for track in run.trackers:
            track(iteration, {**numbers, "seconds/evaluation": seconds})
    return seconds


def iterate(run: Run, state: TrainState) -> tuple[TrainState, StepRecord]:
    """One iteration: rollouts, rewards, advantages, old log-probs, one optimizer step per mini-batch."""
    config, ranks, iteration = run.config, run.policy.ranks, state.iteration + 1
    watch = training_log.Stopwatch()

    rollouts, num_asked = informative_rollouts(run, state.position, iteration, watch)
    position = state.position + num_asked
    ahead = draw_ahead(run, position, iteration + 1)

    with watch("old_log_probs"):
        rewards, group_ids = np.array([r.reward for r in rollouts]), np.array([r.group_id for r in rollouts])
        lengths = np.array([len(r.response_ids) for r in rollouts])
        advantages = run.objective.advantages(rewards, group_ids, lengths)
        # Rollouts of a mini-batch run together; of those without advantage most objectives need no gradient.
        parts = [(r.group_id // config.groups_each, a == 0) for r, a in zip(rollouts, advantages, strict=True)]
        owners = spread([r.num_positions for r in rollouts], parts, ranks.size)
        own = [row for row, owner in enumerate(owners) if owner == ranks.rank]
        share = [rollouts[row] for row in own]
        batch = collate(share, advantages[own], torch.float32, run.policy.device)
        old = run.policy.measure(batch)
        reference = run.reference.measure(batch).log_probs if run.reference else None
        stats = replace(
            old,
            old_log_probs=old.log_probs,
            ref_log_probs=reference,
            batch_entropy=torch.full_like(old.entropy, mean(old.entropy, ranks)),
        )
        if run.objective.min_p is not None:
            stats = replace(stats, proxy_log_probs=run.policy.proxy_log_probs(batch, run.objective.min_p))
        batch, trained_on = corrected(replace(batch, stats=stats), share, config.update)

    with watch("update"):
        learning_rate = set_learning_rate(run.optimizer, config.optim, iteration)
        updates, skipped_in_row = update(run, batch, trained_on, state.skipped_in_row, iteration)
    if ahead is not None:
        with watch("rollout"):
            ahead.result()

    watch.memory = of_the_fullest(watch.memory, ranks)
    log_probs, entropy = ranks.gather(old.log_probs), ranks.gather(old.entropy)
    by_rank = [rollouts[row] for row in sorted(range(len(rollouts)), key=owners.__getitem__)]  # as gathered
    record = training_log.step_record(
        iteration, by_rank, log_probs, entropy, updates, learning_rate=learning_rate, watch=watch
    )
    record = replace(record, num_rejected=len(rollouts) - int(ranks.sum(torch.tensor(len(trained_on)))))
    return TrainState(iteration=iteration, position=position, skipped_in_row=skipped_in_row), record


def informative_rollouts(
    run: Run, position: int, iteration: int, watch: training_log.Stopwatch
) -> tuple[list[Rollout], int]:
    """Graded rollouts of ``rollout.prompts`` groups, and how many prompts that took: drawn now, or stored."""
    stored = load_rollouts(run.folder, iteration)
    if stored is not None:  # ahead, or before a kill by the same weights
        return stored
    with watch("rollout"):
        load_weights(run.engine, run.policy.model, run.config.rollout)
    return draw_rollouts(run, position, iteration, watch)


def draw_ahead(run: Run, position: int, iteration: int) -> "Future[tuple[list[Rollout], int]] | None":
    """With ``rollout.ahead``: begin to draw and store the next iteration's rollouts, by the weights as they are now.

    The engine has a copy of them, so that what is drawn does not depend on when. The last iteration draws ahead, too: a
    training that is made longer goes on as one that was as long from the beginning.
    """
    if run.config.rollout.ahead is None or load_rollouts(run.folder, iteration) is not None:
        return None
    load_weights(run.engine, run.policy.model, run.config.rollout)
    return run.drawer.submit(draw_rollouts, run, position, iteration, training_log.Stopwatch())


def check_drawn_ahead(folder: Path, config: TrainConfig, state: TrainState) -> None:
    """Refuse to go on without the rollouts that were drawn ahead: the weights that drew them are gone.

    Raises:
        StapoError: they are not there, or damaged.
    """
    following, way_out = state.iteration + 1, "restore the file, or train anew with out=OTHER"
    if config.rollout.ahead and state.iteration and load_rollouts(folder, following, way_out) is None:
        raise StapoError(
            f"{folder}: expected the rollouts of iteration {following}, drawn ahead, in state/, found none; {way_out}"
        )


def draw_rollouts(run: Run, position: int, iteration: int, watch: training_log.Stopwatch) -> tuple[list[Rollout], int]:
    """Sample, grade and store an iteration's rollouts with the weights that the engine has.

    With dynamic sampling (``rollout.max_rounds`` above 1) groups that are all right or all wrong are replaced by new
    ones until the rounds are spent; places still missing are filled with such groups. The overlong penalty comes after,
    so that lengths alone do not make a group informative: arXiv:2503.14476, Eq. 11, asks for 0 < number correct < G.
    """
    config, ranks = run.config, run.drawing_ranks
    wanted, asked = config.rollout.prompts, 0
    informative: list[list[Rollout]] = []
    equal: list[list[Rollout]] = []
    for _ in range(config.rollout.max_rounds):
        with watch("rollout"):
            problems = [
                run.problems[i]
                for i in problem_indices(len(run.problems), config.seed, position + asked, wanted - len(informative))
            ]
            prompts = render(problems, config, run.tokenizer)
            sampled = sample_rollouts(
                run.engine,
                prompts,
                config.rollout,
                seed=config.seed,
                iteration=iteration,
                first_group=asked,
                prefix=config.data.style.assistant_prefix,
                tokenizer=run.tokenizer,
                ranks=ranks,
            )
        with watch("reward"):
            golds = {group: problem.asked_gold for group, problem in enumerate(problems, start=asked)}
            drawn = from_all_ranks(grade(sampled, golds, run.graders), ranks)
            graded = sorted(drawn, key=lambda r: (r.group_id, r.index))  # as one rank would have drawn them
        for group in golds:
            members = [r for r in graded if r.group_id == group]
            differ = len({r.reward for r in members if not math.isnan(r.reward)}) > 1
            (informative if differ else equal).append(members)
        asked += len(problems)
        if len(informative) == wanted:
            break
    free_memory(run.engine, run.policy.model, config.rollout)
    # Group ids count from 0 without gaps again, in the order in which the groups were asked.
    groups = sorted(informative + equal[: wanted - len(informative)], key=lambda members: members[0].group_id)
    rollouts = [replace(r, group_id=number) for number, members in enumerate(groups) for r in members]
    if config.reward.overlong_buffer is not None:
        rollouts = with_overlong_penalty(rollouts, config.rollout.max_new_tokens, config.reward.overlong_buffer)
    if ranks.rank == 0:
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
    for number, phase in run.objective.schedule(settings.mini_batches):
        rows = [row for row, rollout in enumerate(rollouts) if rollout.group_id // run.config.groups_each == number]
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


def of_the_fullest(memory: Mapping[str, float], ranks: Reduce) -> dict[str, float]:
    """Each stage's peak, of the rank that has most."""
    peaks = torch.tensor(list(memory.values()), dtype=torch.float64)
    most = ranks.gather(peaks).reshape(ranks.size, -1).amax(0).tolist()
    return dict(zip(memory, most, strict=True))


# --- parts -----------------------------------------------------------------------------------------------------------


def reference_of(policy: Policy, config: TrainConfig) -> Policy:
    """The model the run began with: one more model or, where an adapter is trained, the same without it."""
    if config.lora:
        return replace(policy, base_alone=True)
    return replace(policy, model=load_model(Path(config.model), config, policy.ranks)[0])


def dump(run: Run, mini_batch: Batch, rollouts: Sequence[Rollout], folder: Path) -> None:
    """Save a mini-batch, of all ranks, with the weights before its step; one rank writes."""
    config, ranks = run.config, run.policy.ranks
    weights = weights_to_save(run.policy.model, keep=ranks.rank == 0)
    if ranks.size > 1:
        rollouts = from_all_ranks(rollouts, ranks)
        mini_batch = mini_batch.of_all_ranks(ranks, rollouts)
    if ranks.rank:
        return
    about = DumpedRun(
        objective=dict(config.objective),
        seed=config.seed,
        max_new_tokens=config.rollout.max_new_tokens,
        temperature=config.rollout.temperature,
        config_digest=config.digest(),
    )
    save_dump(folder, mini_batch, run.policy.model, run.tokenizer, about, rollouts=rollouts, weights=weights)


def labels(objective: Objective, base: Path) -> Labels:
    """The labels of the run's checkpoints."""
    start = read_checkpoint(base)
    return Labels(method=objective.label, base=start.model or folder_label(base), base_digest=start.digest)
