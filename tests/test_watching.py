"""How far long commands are: what a log shows, what a terminal shows, and that results know nothing of it."""

import io
import json
import re
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest
from click.testing import CliRunner

from stapo_bench.cli import cli
from stapo_bench.engines.waiting import Waiting
from stapo_bench.errors import watched, watching

HOW_FAR = r"{} [\d,]+/[\d,]+ {} · [\d,.]+ {}/s · ETA \d:\d\d:\d\d"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def clock_of(*times):
    return iter(times).__next__


def test_a_log_gets_a_line_every_ten_seconds_with_count_rate_and_what_is_left():
    log = io.StringIO()
    with watching(log, clock_of(0, 0, 1, 9.9, 10, 19, 20)):
        assert list(watched("abcde", "reading", "letters", 5)) == list("abcde")
    # at 10 s two are done, 0.2/s: three more take 15 s; at 19 s it is too soon; at 20 s four are done
    assert log.getvalue().splitlines() == [
        "reading 2/5 letters · 0.2 letters/s · ETA 0:00:15",
        "reading 4/5 letters · 0.2 letters/s · ETA 0:00:05",
    ]


def test_what_has_no_known_end_has_no_eta_and_a_stage_within_another_shows_both():
    log, times = io.StringIO(), clock_of(0, 0, 0, 0, 0, 20, 20, 20)
    with watching(log, times):
        for _ in watched([1, 2], "scoring", "runs", 2):
            for _ in watched([30.0, 30.0], "reading", "MB", size=lambda part: part):
                pass
            break
    assert log.getvalue() == "scoring 0/2 runs · ETA ? · reading 30 MB · 1.5 MB/s\n"


def test_a_terminal_has_one_line_that_is_gone_at_the_end():
    terminal = Terminal()
    with watching(terminal, clock_of(0, 0, 1, 2, 3)):
        list(watched("abc", "reading", "letters", 3))
    first, second, *rest = terminal.getvalue().split("\x1b[1F")
    assert first == "\x1b[2Kreading 0/3 letters · 0.0 letters/s · ETA ?\n"
    assert second == "\x1b[2Kreading 1/3 letters · 0.5 letters/s · ETA 0:00:04\n"
    assert rest[-2:] == ["\x1b[2K\n", ""]  # wiped, and the cursor where the line stood


def test_what_is_waited_for_is_told_at_once_and_again_after_half_a_minute():
    now, told = [0.0], []
    waiting = Waiting("9 times", clock=lambda: now[0])
    waiting.answered(told.append)
    assert not told
    for now[0] in (10.0, 11.4, 11.5, 41.4, 41.5):  # the first failure at 10 s
        waiting.failed("down", told.append)
    seconds = [line.partition("answered for ")[2].partition(" s;")[0] for line in told]
    assert seconds == ["2", "32"]  # at 11.5 s and at 41.5 s
    waiting.answered(told.append)
    waiting.answered(told.append)
    assert told[2:] == ["requests are answered again"]
    now[0] = 100.0
    waiting.failed("down", told.append)  # a failure of its own, which may pass
    assert len(told) == 3


def test_a_notebook_keeps_every_line_and_gets_those_of_a_log(monkeypatch):
    monkeypatch.setenv("JPY_PARENT_PID", "1")
    terminal = Terminal()
    with watching(terminal, clock_of(0, 0, 1, 2, 10)):
        list(watched("abc", "reading", "letters", 3))
    assert terminal.getvalue() == "reading 2/3 letters · 0.2 letters/s · ETA 0:00:05\n"


def test_nothing_is_shown_where_nobody_watches_nor_of_what_another_thread_does(capsys):
    assert list(watched(range(3), "reading", "numbers")) == [0, 1, 2]
    log = io.StringIO()
    with watching(log, clock_of(0)):  # a second look at the clock would raise
        other = threading.Thread(target=lambda: list(watched(range(3), "reading", "numbers")))
        other.start()
        other.join()
    assert log.getvalue() == "" and capsys.readouterr() == ("", "")


def test_a_loop_that_is_left_early_is_over():
    log = io.StringIO()
    with watching(log, clock_of(0, 0, 1, 1, 30)):
        items = watched("ab", "first", "letters")
        next(items)
        items.close()
        list(watched("c", "second", "letters", 1))
    assert log.getvalue() == "second 0/1 letters · 0.0 letters/s · ETA ?\n"


# -- the commands -----------------------------------------------------------------------------------------------------


@contextmanager
def slow_clock(stream):
    """Every look at the clock is three seconds later: as if every step took long."""
    now = [0.0]

    def clock():
        now[0] += 3.0
        return now[0]

    with watching(stream, clock):
        yield


def rows_of(path, number):
    rows = [{"problem": f"{i} + 1?", "gold": str(i + 1), "completion": f"\\boxed{{{i + 1}}}"} for i in range(number)]
    path.write_text("".join(json.dumps({**row, "label": True}) + "\n" for row in rows))
    return path


COMMANDS = {
    "grade": (["grade", "rows", "--grader", "strict"], ("reading rows", "MB")),
    "score": (["score", "rows"], ("reading rows", "MB")),
    "table": (["table", "a", "b", "c"], ("reading [abc]", "MB")),
    "compare": (["compare", "a", "b"], ("reading [ab]", "MB")),
    "compare several": (["compare", "a", "b", "c"], ("reading [abc]", "MB")),
    "audit": (["audit", "a"], ("reading a", "MB")),
    "plan": (["plan", "a", "b", "--detect", "0.05"], ("reading [ab]", "MB")),
    "truncation": (["truncation", "a"], ("reading a", "MB")),
    "report": (["report", "a", "b", "c", "-o", "r.html"], ("reading [abc]", "MB")),
    "leaderboard": (["leaderboard", "a", "b", "c", "-o", "l.html"], ("reading [abc]", "MB")),
    "export": (["export", "a", "-o", "a.csv"], ("reading a", "MB")),
    "import": (["import", "rows.jsonl", "--out", "imported"], ("importing rows.jsonl", "samples")),
    "arena": (["arena", "rows.jsonl", "--graders", "math"], ("grading by math", "answers")),
}
EACH = pytest.mark.slow(reason="every command that reads runs, twice")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in ("score", "compare", "import") else EACH) for name in COMMANDS]
)
def test_a_command_that_takes_long_says_how_far_it_is_and_prints_the_same(name, make_run, tmp_path, monkeypatch):
    for run, row in (("a", [1.0, 0.0]), ("b", [1.0, 1.0]), ("c", [0.0, 0.0])):
        make_run(run, {"t": [row] * 6})
    rows_of(tmp_path / "rows.jsonl", 12)
    monkeypatch.chdir(tmp_path)
    if "rows" in COMMANDS[name][0]:
        assert CliRunner().invoke(cli, ["import", "rows.jsonl", "--out", "rows"]).exit_code == 0
    arguments, (doing, unit) = COMMANDS[name]
    log = io.StringIO()
    with slow_clock(log):
        watched_ = CliRunner().invoke(cli, arguments)
    assert re.search(HOW_FAR.format(doing, unit, unit), log.getvalue()), (watched_.output, log.getvalue())
    assert watched_.exit_code in (0, 3), watched_.output
    if name in ("import", "grade", "arena", "report"):  # what they print tells times, or what is done already
        return
    assert CliRunner().invoke(cli, arguments).stdout == watched_.stdout


def test_the_console_script_watches_and_a_command_s_output_stays_what_it_is(make_run, tmp_path):
    make_run("a", {"t": [[1.0, 0.0]] * 6})
    code = (
        "import stapo_bench.errors.stages as w, sys; w.LOG_SECONDS = -1.0\n"
        "sys.argv = ['stapo-bench', 'truncation', 'a']\n"
        "from stapo_bench.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stderr.startswith("reading a 0/0 MB · ") and "reading" not in done.stdout
