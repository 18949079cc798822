"""Files as other tools write them, for tests of what reads them."""

import json
from pathlib import Path


def lines(path: Path, rows: list[dict]) -> Path:
    """Rows as JSON lines; the path again."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def lm_eval_row(doc: int, texts: list[str], filter_: str, score: float) -> dict:
    """A line of lm-eval's samples: the answer to n + n is 2n."""
    return {
        "doc_id": doc,
        "doc": {"question": f"What is {doc} + {doc}?", "answer": f"{doc} + {doc} = {2 * doc}\n#### {2 * doc}"},
        "target": f"{doc} + {doc} = {2 * doc}\n#### {2 * doc}",
        "arguments": {"gen_args_0": {"arg_0": "Q: …", "arg_1": {"do_sample": True, "temperature": 0.6, "until": []}}},
        "resps": [texts],
        "filtered_resps": ["[invalid]"],
        "filter": filter_,
        "metrics": ["exact_match"],
        "exact_match": score,
    }
