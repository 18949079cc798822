"""Two runs whose samples hold what wants to leave its element; for the tests of the report."""

import json

PLANTED = (
    "<script>window.flag = 1</script><img src=x onerror='window.flag = 1'></script><!-- &lt;b&gt; \u202e\u2066"
    "&#x3c;script&#x3e; <svg onload=window.flag=1> \\href{javascript:window.flag=1}{x} $<b onclick=x>$ \ud835"
)


def hostile(task, row, index):
    return {"completion": PLANTED, "finish_reason": "length" if index == 1 else "stop", "sum_log_prob": -1.5}


def two_runs(make_run):
    """Two runs of one task, the second better; the first has a second grader that disagrees on one sample."""
    a = make_run("a--!><b>&amp;", {"t": [[1.0, 0.0], [0.5, 0.0], [0.0, 0.0]]}, sample=hostile)
    b = make_run("b", {"t": [[1.0, 1.0], [1.0, 0.0], [1.0, 1.0]]})
    lines = (a / "grades" / "math.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines[1:]]
    rows[0] |= {"outcome": "INCORRECT", "detail": PLANTED}
    (a / "grades" / "strict.jsonl").write_text(
        "\n".join([json.dumps({"grader": "strict-1"}), *map(json.dumps, rows), ""])
    )
    return [a, b]
