"""What is asked: task files and data become ``Task``, ``Problem`` and ``Prompt``, their content checked."""

from stapo_bench.tasks.content import ContentDigest, content_digest, normalise
from stapo_bench.tasks.errata import Golds, apply_errata, errata_version, load_errata
from stapo_bench.tasks.foreign_files import read_foreign_text, read_foreign_yaml
from stapo_bench.tasks.hub import read_source
from stapo_bench.tasks.loading import known_contents, load_problems, load_task, task_names
from stapo_bench.tasks.overlap import Overlap, contained, find_overlaps, read_training_texts
from stapo_bench.tasks.prompts import render_all, render_prompt, render_prompts, render_question, resolve_format
from stapo_bench.tasks.resources import resource_dir
from stapo_bench.tasks.task import Source, Task
