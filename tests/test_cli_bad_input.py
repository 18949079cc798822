"""Bad input on the command line: one clear line for every kind, and an exit code."""

import click
import pytest
from cli_setup import EVAL, one_line

from stapo_bench.cli import cli
from stapo_bench.commands.options import Number
from stapo_train.cli import cli as train_cli


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ({"--ckpt": "none"}, 1, "no such checkpoint: none"),
        ({"--ckpt": "."}, 1, r"not a checkpoint: .: expected a Hugging Face folder"),
        ({"--tasks": "aime42"}, 2, "unknown task 'aime42': did you mean 'aime"),
        ({"--tasks": "none.yaml"}, 2, "unknown task 'none.yaml': no such file"),
        ({"--decoding": "justr"}, 2, "unknown decoding preset 'justr'"),
        ({"--engine": "vllmm"}, 2, "'vllmm' is not one of 'auto', 'transformers'"),
        ({"--shard": "4/4"}, 2, "expected i/n with 0 <= i < n"),
        ({"--shard": "1"}, 2, "expected i/n with 0 <= i < n"),
        ({"--samples": "0"}, 2, "--samples"),
        ({"--prompt-format": "chatty"}, 2, "unknown prompt format 'chatty'"),
        ({"--prompt-format": "chat"}, 1, "no chat template"),
        ({"--data-dir": "nowhere"}, 1, "sums.jsonl: no such file"),
        ({"--out": "script.yaml/run"}, 1, "cannot write to script.yaml/run: Not a directory; choose another --out"),
        ({"--tensor-parallel": "2"}, 2, "--tensor-parallel: expected engine vllm, got scripted"),
        ({"--suite": "paper"}, 2, "expected --tasks or --suite, got both"),
        ({"--base-url": "http://localhost:1/v1"}, 2, "name a server: expected --engine openai, got scripted"),
        ({"--until-width": "2"}, 2, "2.0 is not in the range 0<x<1"),
        ({"--until-width": "0"}, 2, "0.0 is not in the range 0<x<1"),
    ],
)
def test_bad_input_is_one_clear_line(stapo, small, change, code, message):
    options = {"--data-dir": "."} | change
    arguments = [a for pair in options.items() for a in pair]
    got, output, error = stapo(*EVAL, *arguments)  # an option given twice: the last one counts
    assert (got, output) == (code, "")
    assert message in one_line(error)
    assert not (small / "results").exists()


def test_wrong_count_and_wrong_content_name_what_differs(stapo, small):
    data = (small / "sums.jsonl").read_text()
    (small / "sums.jsonl").write_text(data.replace(data.splitlines(keepends=True)[3], ""))
    code, _, error = stapo(*EVAL, "--data-dir", ".")
    assert code == 1
    assert "sums.yaml: expected 10 problems, got 9 in sums.jsonl" in one_line(error)

    digest = "metadata: {digest: 00ff00ff, "
    (small / "sums.jsonl").write_text(data)
    (small / "sums.yaml").write_text((small / "sums.yaml").read_text().replace("metadata: {", digest))
    code, _, error = stapo(*EVAL, "--data-dir", ".")
    assert code == 1
    assert "wrong content in sums.jsonl: expected digest 00ff00ff" in one_line(error)


def test_a_run_of_other_settings_is_refused_with_the_difference(stapo, small):
    assert stapo(*EVAL, "--data-dir", ".", "--samples", 1)[0] == 0
    code, output, error = stapo(*EVAL, "--data-dir", ".", "--samples", 1, "--seed", 7, "--prompt-format", "plain")
    assert (code, output) == (1, "")
    first, *fields = error.splitlines()
    assert "this run was made under other settings" in first
    assert "  seed: the run has 0, now 7" in fields
    assert "  tasks.sums.prompt_format: the run has base, now plain" in fields
    code, _, error = stapo(*EVAL, "--data-dir", ".", "--samples", 1, "--seed", 7, "--allow-different")
    assert code == 0
    assert "results/script-justrl-2" in error


@pytest.mark.parametrize("command", ["grade", "score", "table"])
def test_a_folder_that_is_no_run_is_named(stapo, small, command):
    code, _, error = stapo(command, small)
    assert code == 1
    assert f"not a run folder: {small}" in one_line(error)


def test_near_names_are_suggested(stapo):
    assert "unknown command 'evla': did you mean 'eval'?" in one_line(stapo("evla")[2])
    assert "did you mean 'amc23'?" in one_line(stapo("tasks", "amc32")[2])
    assert "--decoding" in one_line(stapo("eval", "--decodin", "justrl")[2])


def test_an_option_without_its_value_leads_to_the_help_of_its_command(stapo):
    code, _, err = stapo("compare", "--margin")
    assert (code, err) == (
        2,
        "stapo-bench: Option '--margin' requires an argument. (see 'stapo-bench compare --help')\n",
    )
    assert stapo("--nope")[2].endswith("(see 'stapo-bench --help')\n")


def test_debug_shows_the_traceback(stapo):
    code, _, error = stapo("tasks", "amc32", "--debug")
    assert code == 2
    assert "Traceback (most recent call last)" in error


def test_ctrl_c_says_how_to_go_on(stapo, small, monkeypatch):
    def stop(*_args: object, **_options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("stapo_bench.engines.scripted.ScriptedEngine._complete", stop)
    code, _, error = stapo(*EVAL, "--data-dir", ".")
    assert code == 130
    assert "run the same command again to go on" in error.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("grade", "a", "--grader", "strickt"), 2, "unknown grader 'strickt' (graders: math, strict, qwen"),
        (("score", "a", "--grader", "strickt"), 2, "did you mean 'strict'?"),
        (
            ("score", "a", "--grader", "judge-x"),
            1,
            "expected grades by 'judge-x', found math; run 'stapo-bench grade a --j",
        ),
        (("table", "a", "--grader", "nope"), 2, "unknown grader 'nope' (graders: math, strict, qwen"),
        (("table", "a", "--grader", "strickt+corrected"), 2, "did you mean 'strict'?"),
        (
            ("table", "a", "--grader", "x-reported"),
            1,
            "imported files alone; name one that is there: --grader math",
        ),
        (("grade", "a", "--golds", "right"), 2, "'right' is not one of 'published', 'corrected'"),
        (("grade", "a", "--judge", "none"), 1, "no such checkpoint: none"),
        (("grade", "a", "--judge", "http://localhost:1/v1"), 2, "give that as --judge-base-url"),
        (("grade", "a", "--judge-base-url", "http://localhost:1/v1"), 2, "expected --judge with the judge's folder"),
    ],
)
def test_bad_graders_and_judges_are_one_clear_line(stapo, small, arguments, code, message):
    assert stapo(*EVAL, "--data-dir", ".", "--samples", 1, "--out", "a")[0] == 0
    got, output, error = stapo(*arguments)
    assert (got, output) == (code, "")
    assert message in one_line(error)
    assert [path.name for path in (small / "a/grades").iterdir()] == ["math.jsonl"]


def test_what_the_system_refuses_is_one_line_and_control_characters_are_shown(stapo, small):
    assert stapo(*EVAL, "--data-dir", ".", "--out", "a")[0] == 0
    (small / "a/manifest.json").unlink()
    (small / "a/manifest.json").symlink_to("x" * 300)
    code, _, error = stapo("score", "a", "--data-dir", ".")
    assert code == 1 and "File name too long; put that right" in one_line(error)
    code, _, error = stapo("score", "a\x1b[31m", "--data-dir", ".")
    assert code == 1 and "a\\x1b[31m" in one_line(error)


def test_a_run_is_not_compared_with_itself(stapo, tmp_path):
    code, _, error = stapo("compare", tmp_path, f"{tmp_path}/.")
    assert (code, f"expected two runs, got {tmp_path} twice" in one_line(error)) == (2, True)


def test_every_option_that_takes_a_number_refuses_nan_and_infinity():
    commands = {**cli.commands, **train_cli.commands}
    types = {
        f"{name} {parameter.opts[0]}": of
        for name, command in commands.items()
        for parameter in command.params
        for of in (parameter.type.types if isinstance(parameter.type, click.Tuple) else [parameter.type])
        if isinstance(of, click.types.FloatParamType)
    }
    assert {"compare --margin", "compare --require", "plan --baseline", "import --temperature"} <= types.keys()
    assert [name for name, of in types.items() if not isinstance(of, Number)] == []
    for value in ("nan", "-nan", "inf", "-inf"):
        with pytest.raises(click.BadParameter, match="expected a number, got"):
            Number().convert(value, None, None)
