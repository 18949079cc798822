"""The paper's training on a cluster: verl's settings from our configs, the stages in order, what is refused; no verl.

What verl itself says to the settings is in tests/integration/test_verl_paper.py.
"""

import shlex
import subprocess
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from stapo_bench.cli import cli
from stapo_bench.errors import StapoError, UsageError
from stapo_train.config import load_config
from stapo_train.cost.shapes import GPUS, SHAPES, Setup
from stapo_train.integrations.metrics_file import VERL, MetricsFile, record_of
from stapo_train.reproduce import __main__ as reproduce
from stapo_train.reproduce import paper as reproduce_paper
from stapo_train.reproduce import paper_stages, paper_verl

ROOT = Path(__file__).resolve().parent.parent
PAPER = ROOT / "train" / "configs" / "paper"
SETUP = Setup(gpu=GPUS["h20"], nodes=8, gpus_per_node=8, tensor_parallel=2, sequence_parallel=4)
METHODS = ("grpo", "20-entropy", "justrl", "stapo")


def overrides(method="stapo", pairs=(), setup=SETUP):
    config = load_config(PAPER / f"8b-{method}.yaml", pairs)
    found = paper_verl.verl_overrides(config, setup, data=Path("/d/train.parquet"), out=Path("/o/8b") / method)
    return dict(pair.split("=", 1) for pair in found)


def test_the_published_recipe_in_verls_words():
    found = overrides()
    actor, drawn = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
    assert found["data.train_batch_size"] == "256" and found[f"{drawn}.n"] == "8"
    assert found[f"{actor}.ppo_mini_batch_size"] == "64"  # prompts: four updates an iteration
    assert (found["data.max_prompt_length"], found["data.max_response_length"]) == ("1024", "15360")
    assert found[f"{drawn}.max_model_len"] == "16384"
    assert found[f"{actor}.ppo_max_token_len_per_gpu"] == "4096"  # a quarter of the longest sequence
    assert found[f"{actor}.optim.lr"] == "1e-06" and found[f"{actor}.optim.lr_warmup_steps"] == "10"
    assert found[f"{actor}.optim.weight_decay"] == "0.1" and found[f"{actor}.optim.clip_grad"] == "1.0"
    assert found[f"{actor}.optim.betas"] == "[0.9,0.999]"
    assert (found[f"{drawn}.temperature"], found[f"{drawn}.top_p"]) == ("1.0", "1.0")
    assert (found["trainer.nnodes"], found["trainer.n_gpus_per_node"]) == ("8", "8")
    assert found[f"{drawn}.tensor_model_parallel_size"] == "2"
    assert found[f"{drawn}.gpu_memory_utilization"] == "0.6"
    assert found["+ray_kwargs.ray_init.runtime_env.env_vars.STAPO_OBJECTIVE"] == "stapo"
    # What the objective decides is not said twice.
    assert not any(key.startswith(f"{actor}.clip_ratio") or key.endswith("loss_agg_mode") for key in found)


def test_methods_differ_in_the_objective_and_in_folders_alone():
    one, other = overrides("grpo"), overrides("stapo")
    assert {key for key in one if one[key] != other[key]} == {
        "+ray_kwargs.ray_init.runtime_env.env_vars.STAPO_OBJECTIVE",
        "trainer.default_local_dir",
        "trainer.experiment_name",
    }


def test_an_objectives_settings_travel_quoted():
    found = overrides(pairs=["objective.q=0.5"])["+ray_kwargs.ray_init.runtime_env.env_vars.STAPO_OBJECTIVE"]
    assert found[0] == found[-1] == "'"  # braces mean something in hydra
    assert yaml.safe_load(found[1:-1]) == {"name": "stapo", "q": 0.5}


@pytest.mark.parametrize(
    "pair",
    [
        "rollout.max_rounds=2",
        "lora={rank: 4, alpha: 8}",
        "optim.states=8bit",
        "reward.overlong_buffer=9",
        "update.selection=probe",
        "data.prompt_format=plain",
        "data.system=terse",
    ],
)
def test_what_verl_lacks_is_refused(pair):
    with pytest.raises(UsageError, match=rf"{pair.split('=', maxsplit=1)[0]} .*: expected "):
        overrides(pairs=[pair])


@pytest.mark.parametrize("pair", ["rollout.ahead=1", "eval={every: 20, tasks: [tiny_aime24]}"])
def test_what_verl_lacks_and_our_transformers_engine_has_is_refused(pair):
    with pytest.raises(UsageError, match=rf"{pair.split('=', maxsplit=1)[0]} .*: expected None, which is all that"):
        overrides(pairs=["rollout.engine=transformers", pair])


def test_verl_keeps_as_many_checkpoints_as_are_asked_for_and_the_disk_is_counted_with_them():
    assert overrides()["trainer.max_actor_ckpt_to_keep"] == "1"
    assert overrides(pairs=["checkpoint.keep=4"])["trainer.max_actor_ckpt_to_keep"] == "4"
    with pytest.raises(UsageError, match=r"checkpoint\.keep_every 40: expected None, which is all that"):
        overrides(pairs=["checkpoint.keep=4", "checkpoint.keep_every=40"])

    def disk(pairs) -> int:
        configs = {"stapo": load_config(PAPER / "8b-stapo.yaml", pairs)}
        line = reproduce_paper.estimate(SHAPES["8b"], SETUP, configs)[-1]
        return int(line.removeprefix("disk: ").split(" GB")[0].replace(",", ""))

    # of one method three more, 12 bytes a parameter: float32 weights and two moments
    assert disk(["checkpoint.keep=4"]) - disk([]) == pytest.approx(3 * 12 * SHAPES["8b"].parameters / 1e9, abs=1)


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        (["update.importance_cap=3"], {"rollout_is": "token", "rollout_is_threshold": "3.0"}),
        (["update.correction=sequence-tis"], {"rollout_is": "sequence", "rollout_is_threshold": "2.0"}),
        (["update.correction=icepop"], {"rollout_is": "token", "rollout_is_threshold": "'0.5_5.0'"}),
        (["update.correction=mis"], {"rollout_is": "sequence", "rollout_is_threshold": "'1e-08_3.0'"}),
        (
            ["update.correction=rejection", "update.correction_bounds=[0.9, 1.1]"],
            {"rollout_is": "null", "rollout_rs": "seq_mean_k1", "rollout_rs_threshold": "'0.9_1.1'"},
        ),
    ],
)
def test_a_correction_is_verls_own(pairs, expected):
    place = "algorithm.rollout_correction."
    found = overrides(pairs=pairs)
    assert {k.removeprefix(place): v for k, v in found.items() if k.startswith(place)} == expected
    assert found["actor_rollout_ref.rollout.calculate_log_probs"] == "True"
    assert not [key for key in overrides(pairs=[]) if key.startswith(place)]


@pytest.fixture
def plan(tmp_path):
    configs = {m: load_config(PAPER / f"8b-{m}.yaml", ["iterations=40"]) for m in METHODS}
    found = {m: ["a=1", "b='x y'"] for m in METHODS}
    return paper_stages.stages(tmp_path, configs, found, SETUP), configs


def test_every_stage_comes_after_what_it_needs(plan, tmp_path):
    stages, configs = plan
    names = [stage.name for stage in stages]
    assert len(names) == 1 + 4 * 2 + 5 * 2 + 2 and names[0] == "data" and names[-2:] == ["table", "figures"]
    assert names[1:9:2] == [f"train {m}" for m in METHODS] and names[2:9:2] == [f"convert {m}" for m in METHODS]
    assert {name.removeprefix("eval ") for name in names[9:-2]} == {
        f"{model}-{regime}" for model in ("base", *METHODS) for regime in ("training", "justrl")
    }
    paths = paper_stages.write(stages, tmp_path, configs["stapo"])
    for path in paths:
        subprocess.run(["bash", "-n", path], check=True)
    assert load_config(tmp_path / "launch" / "config.yaml") == configs["stapo"]
    train = paths[1].read_text()
    assert "export STAPO_OBJECTIVE=grpo\n" in train and " \\\n    a=1 \\\n" in train
    assert shlex.split(train.split("main_ppo")[1].replace("\\\n", " ")) == [
        "a=1",
        "b='x y'",
        f"hydra.run.dir={tmp_path}/grpo/hydra",
    ]
    assert paths[9].read_text().endswith(" 32 2 4\n")  # 64 GPUs: 32 engines of two, four on each node


@pytest.mark.parametrize(("before", "after"), [(None, ""), ("mine", "mine,")])
def test_a_users_own_verl_modules_stay(plan, before, after, monkeypatch):
    monkeypatch.delenv("VERL_USE_EXTERNAL_MODULES", raising=False)
    if before:
        monkeypatch.setenv("VERL_USE_EXTERNAL_MODULES", before)
    script = plan[0][1].script.split("python -m verl")[0] + 'echo "$VERL_USE_EXTERNAL_MODULES $STAPO_OBJECTIVE"'
    shown = subprocess.run(["bash", "-euo", "pipefail", "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout == f"{after}stapo_train.integrations.verl grpo\n"


def test_finished_means_the_last_iteration(plan, tmp_path):
    train, convert = plan[0][1:3]
    assert not train.is_done()
    mark = tmp_path / "grpo" / "verl" / "latest_checkpointed_iteration.txt"
    mark.parent.mkdir(parents=True)
    mark.write_text("20")
    assert not train.is_done()
    mark.write_text("40")
    assert train.is_done() and not convert.is_done()
    assert "global_step_40/actor" in convert.script


@pytest.mark.slow(reason="all commands of a stage, with their figures")
def test_the_curves_are_drawn_from_what_verl_logs(plan, tmp_path):
    """At toy size: two steps of every method, as the plug-in writes them; the stage's own commands."""
    logged = {"actor/entropy": 0.5, "critic/score/mean": 0.25, "response_length/mean": 40.0}
    tokens = {"actor/objective/num_tokens": 400.0, "actor/objective/num_silenced": 2.0}
    for method in METHODS:
        log = MetricsFile(tmp_path / method / "verl", seed=0, objective={"name": method}, iterations=2, trainer="verl")
        for step in (1, 2):
            log.add(step, record_of(VERL, logged | tokens))
    stage = plan[0][-1]
    assert not stage.is_done()
    for line in stage.script.splitlines():
        result = CliRunner().invoke(cli, shlex.split(line)[1:])
        assert result.exit_code == 0, result.output
    assert stage.is_done()


def test_a_stage_runs_once_and_a_failure_names_its_log(tmp_path, capfd):
    done = tmp_path / "done"
    script = tmp_path / "stage.sh"
    stage = paper_stages.Stage(name="demo", script="", is_done=done.is_file)
    script.write_text("echo out; exit 3\n")
    with pytest.raises(StapoError, match=r"demo failed \(exit 3\), all of it: .*stage\.sh\.log"):
        reproduce_paper.run(stage, script)
    script.write_text("true\n")
    with pytest.raises(StapoError, match="exit 0"):  # it says that it ended well, and made nothing
        reproduce_paper.run(stage, script)
    script.write_text(f"echo drawn; touch {done}\n")
    reproduce_paper.run(stage, script)
    reproduce_paper.run(stage, script)
    assert capfd.readouterr().out.count("drawn\n") == 1
    assert Path(f"{script}.log").read_text(encoding="utf-8") == "out\ndrawn\n"


def dry_run(tmp_path, *arguments):
    reproduce.main(["--scale", "paper", "--dry-run", "--out", str(tmp_path), *arguments])


@pytest.mark.parametrize("model", ["1.7b", "8b", "14b"])
def test_a_dry_run_says_what_it_takes_and_starts_nothing(model, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(reproduce_paper, "missing_packages", lambda: ["verl", "vllm"])
    dry_run(tmp_path, "--model", model, "--verl", "trainer.device=npu")
    out = capsys.readouterr().out
    assert "not checked by verl" in out and "GiB in updates" in out and "GB of checkpoints" in out
    assert out.count("python -m verl.trainer.main_ppo") == 4
    assert out.count("    trainer.device=npu \\\n    hydra.run.dir=") == 4  # what a user adds comes last
    assert sorted(path.name for path in tmp_path.iterdir()) == ["launch"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "14b", "--nodes", "1", "--gpu", "a100"], "5% for its doubt) during updates on 8 GPUs"),
        (["--model", "8b", "rollout.gpu_memory=0.95"], "during rollouts on 64 GPUs; lower rollout.gpu_memory=0.95"),
        (["--model", "1.7b", "--nodes", "3"], "divide evenly over 24 data-parallel ranks"),
        (["--model", "8b", "--tensor-parallel", "3"], "--tensor-parallel 3: expected a divisor of 8 GPUs"),
        (["--model", "1.7b", "--nodes", "-1"], "--nodes -1: expected 1 or more"),
        (["--model", "1.7b", "--nodes", "0"], "--nodes 0: expected 1 or more"),
        (["--model", "1.7b", "--sequence-parallel", "0"], "--sequence-parallel 0: expected 1 or more"),
        (["--model", "8b", "--nodes", "1", "--gpus-per-node", "1"], "on 1 GPUs; use more GPUs a node or a kind with"),
        (["--model", "8b", "rollout.max_rounds=3"], "rollout.max_rounds 3: expected 1"),
        (["--model", "8b", "iteration=3"], "did you mean 'iterations'"),
    ],
)
def test_the_impossible_is_one_line_and_exit_code_2(arguments, message, tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        dry_run(tmp_path, *arguments)
    assert stop.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert not list(tmp_path.iterdir())


def test_a_base_that_is_not_there_stops_before_anything_starts(tmp_path, capsys):
    with pytest.raises(SystemExit):
        reproduce.main(["--scale", "paper", "--model", "8b", "--base", str(tmp_path / "no"), "--out", str(tmp_path)])
    assert "no such folder; expected the base model there" in capsys.readouterr().err


def test_what_is_not_installed_stops_before_anything_starts(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(reproduce_paper, "missing_packages", lambda: ["vllm"])
    arguments = ["--model", "8b", "--base", str(tmp_path), "--out", str(tmp_path / "o")]
    with pytest.raises(SystemExit):
        reproduce.main(["--scale", "paper", *arguments])
    assert "expected verl, vllm, flash-attn and matplotlib in this environment, got no vllm" in capsys.readouterr().err
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("module", ["verl", "vllm", "flash_attn", "matplotlib"])
def test_everything_that_a_cluster_needs_is_looked_for(monkeypatch, module):
    monkeypatch.setattr(paper_verl, "find_spec", lambda name: None if name == module else object())
    assert paper_verl.missing_packages() == [module.replace("_", "-")]
