"""What is decided before a Ray cluster runs anything: how many replicas fit, and whether all see the same."""

from types import SimpleNamespace

import pytest
from cli_setup import EVAL, one_line

from stapo_bench import __version__
from stapo_bench.engines.ray_replicas import _check_nodes, _share_out, folder_hashes
from stapo_bench.errors import StapoError, UsageError

EIGHT = {"CPU": 64.0, "GPU": 8.0, "memory": 1e12}


@pytest.mark.parametrize(
    ("nodes", "replicas", "each", "number"),
    [
        ([EIGHT, EIGHT], None, 1, 16),
        ([EIGHT, EIGHT], "auto", 2, 8),
        ([EIGHT, {"CPU": 8.0, "GPU": 3.0}, {"CPU": 8.0}], "auto", 2, 5),  # one GPU is left over; the head has none
        ([EIGHT, {"CPU": 2.0, "GPU": 4.0}], "auto", 1, 10),  # each wants a CPU too
        ([EIGHT], "3", 2, 3),
        ([{"CPU": 2.0}, {"CPU": 2.0}], "4", 1, 4),
        ([{"CPU": 1.0}], "1", 1, 1),
    ],
)
def test_replicas_by_the_machines_that_have_room(nodes, replicas, each, number):
    bundle = {"CPU": 1.0, "GPU": float(each)} if "GPU" in str(nodes) else {"CPU": 1.0}
    assert _share_out(nodes, replicas, each) == (number, bundle)


@pytest.mark.parametrize(
    ("nodes", "replicas", "each", "words"),
    [
        ([EIGHT, EIGHT], "3", 8, "--replicas 3: expected 8 GPUs of one machine and a CPU for each, .* has room for 2"),
        ([EIGHT, EIGHT], None, 16, "--replicas auto: expected 16 GPUs of one machine .* has room for 0"),
        (
            [{"CPU": 4.0}],
            None,
            1,
            "--replicas auto: expected a CPU for each, .* room for 4; without GPUs give a number",
        ),
        ([], "1", 1, "room for 0"),
    ],
)
def test_more_than_there_is_room_for_is_refused(nodes, replicas, each, words):
    with pytest.raises(UsageError, match=words):
        _share_out(nodes, replicas, each)


class RayError(Exception):
    pass


def actor(name, hashes, version=__version__):
    """A machine that sees those files, in place of an actor on it."""
    there = {"machine": (name, version), "hashes": hashes}
    return SimpleNamespace(
        **{method: SimpleNamespace(remote=lambda *_, value=value: value) for method, value in there.items()}
    )


FAKE_RAY = SimpleNamespace(get=lambda what: what, exceptions=SimpleNamespace(RayError=RayError))


def test_every_machine_sees_the_checkpoint_as_it_is_here(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_text("weights")
    (tmp_path / "deeper").mkdir()
    folders, here = [str(tmp_path)], folder_hashes([str(tmp_path)])
    assert [path.rsplit("/", 1)[1] for path in here] == ["config.json", "model.safetensors"]
    assert list(folder_hashes([f"{tmp_path}/config.json", f"{tmp_path}/none"])) == [f"{tmp_path}/config.json"]
    assert _check_nodes(FAKE_RAY, [actor("n1", here), actor("n2", here), actor("n1", here)], folders) == [
        "n1",
        "n2",
        "n1",
    ]
    weights = f"{tmp_path}/model.safetensors"
    for seen, what in (({}, "no such file"), ({**here, weights: "0"}, "another file")):
        with pytest.raises(
            StapoError, match=rf"expected {tmp_path}/.* on every machine as it is here, n2 has {what}: put"
        ):
            _check_nodes(FAKE_RAY, [actor("n1", here), actor("n2", seen)], folders)
    with pytest.raises(StapoError, match=f"expected stapo-bench {__version__} on every machine, n2 has 0.0"):
        _check_nodes(FAKE_RAY, [actor("n1", here), actor("n2", here, "0.0")], folders)


def test_what_a_machine_cannot_start_is_one_line():
    def dead(what):
        raise RayError("the actor died\n\tbecause its node has died")

    ray = SimpleNamespace(get=dead, exceptions=FAKE_RAY.exceptions)
    with pytest.raises(
        StapoError, match=r"cannot start a replica: RayError: the actor died because its node has died$"
    ):
        _check_nodes(ray, [], [])


@pytest.fixture
def stapo_without_ray(small, stapo, monkeypatch):
    monkeypatch.setattr("stapo_bench.engines.options.find_spec", lambda name: None)
    return stapo


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (
            ("--ray", "nonsense"),
            2,
            "--ray: expected auto or the head's HOST:PORT, such as 10.0.0.1:6379, got 'nonsense'",
        ),
        (("--ray", "ray://head:10001"), 2, "expected auto or the head's HOST:PORT"),
        (("--ray", "auto", "--engine", "auto"), 2, "--ray: expected --engine vllm or transformers: auto goes by"),
        (
            ("--ray", "auto", "--engine", "openai"),
            2,
            "--ray: expected engine vllm, transformers or scripted, got openai",
        ),
        (("--ray", "auto", "--replicas", "0"), 2, "--replicas: expected a number from 1 up or auto, got '0'"),
        (("--ray", "auto"), 1, "--ray: ray is not installed: pip install 'stapo-bench[ray]'"),
    ],
)
def test_what_needs_no_cluster_to_be_refused(stapo_without_ray, arguments, code, words):
    ended, _, error = stapo_without_ray(*EVAL, "--data-dir", ".", *arguments)
    assert ended == code and words in one_line(error)
