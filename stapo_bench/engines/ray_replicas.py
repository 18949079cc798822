"""Replicas as actors of a Ray cluster that is there: several machines, one queue.

    engine = open_on_ray(EngineOptions(name="vllm", ray="auto", tensor_parallel=2), Path("/shared/checkpoint"))

One placement group holds a bundle for each replica: its GPUs, of one machine, or one CPU in a cluster without GPUs. An
actor starts the same process there that ``replica_process`` starts here and passes messages on, so that nothing of Ray
is inside an engine. What Ray finds dead is a dead replica: the others go on with its work. Ray ends the actors of a
driver that is gone, and a process whose actor is gone ends by itself.
"""

import os
import platform
import signal
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from stapo_bench import __version__
from stapo_bench.engines.options import AUTO, EngineOptions, check_ray
from stapo_bench.engines.replica_process import ReplicaProcess
from stapo_bench.engines.replica_wire import Message, Outbox, Replica, opening
from stapo_bench.engines.replicas import ReplicatedEngine
from stapo_bench.errors import StapoError, UsageError
from stapo_bench.tasks import file_hashes

_REACH_SECONDS = 5.0  # for the cluster to take a connection; Ray itself tries for minutes
_ROOM_SECONDS = 60.0  # that others, who use the cluster too, may take to make room
_KILL_SECONDS = 5.0  # beyond an engine's own, for a machine to answer that it has ended it


def open_on_ray(options: EngineOptions, checkpoint: Path) -> ReplicatedEngine:
    """As many replicas as were asked for, or as the cluster's GPUs suffice for; all are ready.

    Raises:
        UsageError: the cluster can never have room for so many.
        StapoError: no Ray, no cluster, no room now, a machine that sees another checkpoint, or one does not start.
    """
    check_ray(options)
    assert options.ray is not None
    with ExitStack() as held:
        ray = _connect(options.ray, held)
        each = options.tensor_parallel or 1
        number, bundle = _share_out(
            [node["Resources"] for node in ray.nodes() if node["Alive"]], options.replicas, each
        )
        group = _reserve(number, bundle, held)
        adapter = None if options.adapter is None else options.adapter.absolute()
        there = replace(options, ray=None, replicas=None, adapter=adapter)
        actors = [_actor(ray, group, index, bundle) for index in range(number)]
        folders = [str(path.absolute()) for path in (checkpoint, options.adapter) if path is not None]
        names = _check_nodes(ray, actors, folders)

        def start(index: int, outbox: Outbox) -> Replica:
            return RayReplica(f"replica {index + 1} of {number} ({names[index]})", actors[index], outbox)

        return ReplicatedEngine(opening(there, checkpoint.absolute()), start, number, held.pop_all())


class Host:
    """What runs in the actor: the replica's process on that machine. Its methods are called through Ray."""

    def __init__(self) -> None:
        self._said: Outbox = SimpleQueue()
        self._process = ReplicaProcess("", None, self._said)

    def machine(self) -> tuple[str, str]:
        """Its name, and the version of this package there."""
        return platform.node(), __version__

    def hashes(self, folders: Sequence[str]) -> dict[str, str]:
        """sha256 of the files there, by their paths."""
        return folder_hashes(folders)

    def tell(self, message: Message | None) -> None:
        """A message for the replica."""
        self._process.send(message)

    def said(self) -> Iterator[Message]:
        """What the replica says, as it does; when it has ended, how."""
        while (message := self._said.get()[1]) is not None:
            yield message
        yield {"error": self._process.end(), "is_ours": False}

    def end(self, patience_s: float) -> str:
        """As ``Replica.end``."""
        return self._process.end(patience_s)


class RayReplica:
    """A replica in an actor. Its calls are run in their order, beside the one that passes on what is said."""

    def __init__(self, name: str, actor: Any, outbox: Outbox) -> None:
        self.name = name
        self._actor = actor
        self._how = ""
        threading.Thread(target=self._listen, args=(outbox,), daemon=True).start()

    def _listen(self, outbox: Outbox) -> None:
        import ray

        try:
            for said in self._actor.said.options(num_returns="streaming").remote():
                outbox.put((self, ray.get(said)))
        except Exception as error:  # the actor's death, of whatever cause, or the end of the connection
            self._how = _reason(error)
        outbox.put((self, None))

    def send(self, message: Message | None) -> None:
        """A call that nobody waits for."""
        self._actor.tell.options(concurrency_group="control").remote(message)

    def end(self, patience_s: float = 1.0) -> str:
        """The process first, then the actor; one that is known to be dead is not asked, as nobody would answer."""
        import ray

        if not self._how:
            with suppress(Exception):  # it dies just now, or does not answer
                ended = self._actor.end.options(concurrency_group="control").remote(patience_s)
                self._how = ray.get(ended, timeout=patience_s + _KILL_SECONDS)
        with suppress(Exception):
            ray.kill(self._actor)
        return self._how or "no answer"


def _connect(address: str, held: ExitStack) -> Any:
    """Ray, connected; what the process is connected to already stays so."""
    import ray

    if ray.is_initialized():
        return ray
    named = os.environ.get("RAY_ADDRESS") if address == AUTO else address
    host, _, port = (named or "").rpartition(":")
    if port.isdecimal():
        try:
            socket.create_connection((host.strip("[]"), int(port)), _REACH_SECONDS).close()
        except OSError as error:
            raise StapoError(
                f"--ray: expected a cluster's head at {named}, got no connection: {error.strerror or error}; "
                "`ray start --head` starts one there, `ray status` says whether one runs"
            ) from None
    before = signal.getsignal(signal.SIGTERM)
    held.callback(ray.shutdown)
    # Ray prints on standard output, where tables go, whatever befalls any machine; of a replica we tell.
    ray._private.worker.listen_error_messages = lambda *_: None
    try:
        ray.init(address=named or "auto", logging_level="ERROR", log_to_driver=False, namespace="stapo-bench")
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise StapoError(
            f"--ray {address}: {_reason(error)}; expected a machine of the cluster (`ray start --address HOST:PORT` "
            "makes this one part of it) and, where the cluster has a token, RAY_AUTH_MODE=token"
        ) from None
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)  # Ray's own ends the process without a word of ours
    return ray


def _share_out(nodes: Sequence[Mapping[str, float]], replicas: str | None, each: int) -> tuple[int, dict[str, float]]:
    """How many replicas, and what each takes: ``each`` GPUs of one machine with a CPU, or a CPU where no node has GPUs.

    Args:
        nodes: resources by Ray's names, of each machine.
        replicas: a number; None or ``auto``: as many as there are GPUs for.
        each: GPUs that share a model.

    Raises:
        UsageError: more than the machines have room for, or ``auto`` without GPUs.
    """
    on_gpus = any(node.get("GPU", 0) for node in nodes)
    bundle = {"CPU": 1.0, "GPU": float(each)} if on_gpus else {"CPU": 1.0}
    room = sum(min(int(node.get(name, 0) // amount) for name, amount in bundle.items()) for node in nodes)
    asked = AUTO if replicas is None else replicas
    number = int(asked) if asked != AUTO else room if on_gpus else 0
    if not 0 < number <= room:
        needed = f"{each} GPUs of one machine and a CPU" if on_gpus else "a CPU"
        raise UsageError(
            f"--replicas {asked}: expected {needed} for each, the Ray cluster has room for {room}"
            + ("" if on_gpus else "; without GPUs give a number")
        )
    return number, bundle


def _reserve(number: int, bundle: Mapping[str, float], held: ExitStack) -> Any:
    """A placement group with a bundle for each replica: all of them, or none."""
    from ray.util.placement_group import placement_group, remove_placement_group

    group = placement_group([dict(bundle)] * number, strategy="PACK")
    held.callback(remove_placement_group, group)
    if not group.wait(_ROOM_SECONDS):
        needed = " and ".join(f"{amount:g} {name}" for name, amount in bundle.items())
        raise StapoError(
            f"--ray: expected room for {number} replicas of {needed} each, the cluster had none for "
            f"{_ROOM_SECONDS:g} s: others use it (`ray status`); fewer --replicas, or later"
        )
    return group


def _actor(ray: Any, group: Any, index: int, bundle: Mapping[str, float]) -> Any:
    """The actor in a bundle. ``control``: its calls while ``said`` runs, one after the other."""
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    there = PlacementGroupSchedulingStrategy(placement_group=group, placement_group_bundle_index=index)
    return (
        ray.remote(concurrency_groups={"control": 1})(Host)
        .options(num_cpus=bundle["CPU"], num_gpus=bundle.get("GPU", 0), scheduling_strategy=there)
        .remote()
    )


def _check_nodes(ray: Any, actors: Sequence[Any], folders: Sequence[str]) -> list[str]:
    """The names of the actors' machines; StapoError where one has another version of this package, or other files."""
    try:
        machines = ray.get([actor.machine.remote() for actor in actors])
        one_of_each = dict(zip([name for name, _ in machines], actors, strict=True))
        hashed = {name: actor.hashes.remote(folders) for name, actor in one_of_each.items()}
        here = folder_hashes(folders)
        for name, version in machines:
            if version != __version__:
                raise StapoError(f"--ray: expected stapo-bench {__version__} on every machine, {name} has {version}")
        for name, hashes in hashed.items():
            there = ray.get(hashes)
            differ = sorted(path for path in here | there if here.get(path) != there.get(path))
            if differ:
                what = "another file" if differ[0] in there else "no such file"
                raise StapoError(
                    f"--ray: expected {differ[0]} on every machine as it is here, {name} has {what}: "
                    "put the checkpoint where all machines see it"
                )
    except ray.exceptions.RayError as error:
        raise StapoError(f"--ray: a machine of the cluster cannot start a replica: {_reason(error)}") from None
    return [name for name, _ in machines]


def folder_hashes(folders: Sequence[str]) -> dict[str, str]:
    """sha256 of the files that stand in these folders, by their paths; a file stands for itself."""
    found = {}
    for path in map(Path, folders):
        files = sorted(file for file in path.iterdir() if file.is_file()) if path.is_dir() else [path]
        hashes = file_hashes([file for file in files if file.exists()])
        found.update({str(path / name) if path.is_dir() else str(path): digest for name, digest in hashes.items()})
    return found


def _reason(error: Exception) -> str:
    """What Ray says, on one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
