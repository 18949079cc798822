"""What the queue of replicas takes beyond the least there can be, counted in simulated time, on any machine the same.

``bench.replicas`` measures the same with processes, on the wall.
"""

import heapq
import random
from collections import deque

import pytest

from stapo_bench.engines.ledger import Ledger
from stapo_bench.records import Prompt, Request, SampleKey

AT_ONCE = 16  # sequences of a replica
MEDIAN, SPREAD, LIMIT = 500, 0.8, 4096  # tokens, log-normal


def make_requests(number: int) -> list[Request]:
    prompt = Prompt(task="t", problem_id="p", text="?")
    return [Request(key=SampleKey("t", "p", j), prompt=prompt, seed=j) for j in range(number)]


def long_tailed(number: int, seed: int) -> list[int]:
    rng = random.Random(seed)
    return [min(LIMIT, 1 + int(MEDIAN * rng.lognormvariate(0.0, SPREAD))) for _ in range(number)]


class Simulated:
    """Replicas that run ``AT_ONCE`` requests each, a token a second; what they are handed beyond that waits there."""

    def __init__(self, ledger: Ledger[int], lengths: list[int], replicas: int) -> None:
        self.ledger, self.lengths = ledger, lengths
        self.queues: dict[int, deque[int]] = {replica: deque() for replica in range(replicas)}
        self.num_running = dict.fromkeys(range(replicas), 0)
        self.ends: list[tuple[float, int, int]] = []
        self.answered: list[int] = []

    def hand_out(self, now: float) -> None:
        for replica, batch in self.ledger.batches(dict.fromkeys(self.queues, AT_ONCE), now):
            self.queues[replica].extend(request.seed for request in batch)
        for replica, queue in self.queues.items():
            while queue and self.num_running[replica] < AT_ONCE:
                self.num_running[replica] += 1
                number = queue.popleft()
                heapq.heappush(self.ends, (now + self.lengths[number], replica, number))

    def kill(self, replica: int) -> None:
        self.ledger.lost(replica)
        del self.queues[replica]

    def makespan(self, kill_after: int | None = None) -> float:
        """Seconds until all are answered; replica 0 dies after so many answers."""
        now = 0.0
        self.hand_out(now)
        while self.ledger.is_open:
            now, replica, number = heapq.heappop(self.ends)
            if replica not in self.queues:  # it died with this one
                continue
            self.num_running[replica] -= 1
            if self.ledger.answered(replica, SampleKey("t", "p", number), now):
                self.answered.append(number)
            if len(self.answered) == kill_after:
                self.kill(0)
            self.hand_out(now)
        return now


@pytest.mark.parametrize("replicas", [2, 4, 8])
@pytest.mark.parametrize("kills", [False, True])
def test_long_tails_cost_at_most_a_tenth_of_the_least_there_can_be(replicas, kills):
    number = 30 * 64 * replicas
    lengths = long_tailed(number, seed=replicas)
    world = Simulated(Ledger(make_requests(number), range(replicas)), lengths, replicas)
    took = world.makespan(kill_after=number // 2 if kills else None)
    assert sorted(world.answered) == list(range(number))  # none lost, none twice
    # Of one that dies half way: half the work by all, the other half by the others. It did not die with nothing begun.
    later = replicas - 1 if kills else replicas
    ideal = sum(lengths) / 2 / (AT_ONCE * replicas) + sum(lengths) / 2 / (AT_ONCE * later)
    assert ideal > max(lengths)
    assert took <= 1.1 * ideal
    assert took >= (0.95 if kills else 1.0) * ideal  # half of the answers are not quite half of the work


def test_shares_that_are_fixed_would_cost_more():
    """What the bound tells apart: each replica its part from the beginning, where one part has the long requests."""
    lengths = [LIMIT if j < 64 else MEDIAN for j in range(640)]
    world = Simulated(Ledger(make_requests(640), range(4)), lengths, 4)
    ideal = max(sum(lengths) / (AT_ONCE * 4), LIMIT)
    fixed = max(sum(lengths[160 * i : 160 * (i + 1)]) / AT_ONCE for i in range(4))
    assert fixed > 1.5 * ideal
    assert world.makespan() <= 1.1 * ideal
