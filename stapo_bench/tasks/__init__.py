"""What is asked: task files and data become ``Task``, ``Problem`` and ``Prompt``, their content checked."""

from typing import TYPE_CHECKING

from stapo_bench.plugins import lazy_names

if TYPE_CHECKING:
    from stapo_bench.tasks.content import ContentDigest, content_digest, normalise
    from stapo_bench.tasks.errata import Golds, apply_errata, errata_version, load_errata
    from stapo_bench.tasks.foreign_files import (
        LONGEST_LINE,
        file_hashes,
        read_foreign_object,
        read_foreign_rows,
        read_foreign_text,
        read_foreign_yaml,
        regular_file,
    )
    from stapo_bench.tasks.hub import HubRefusedError, find_commit, read_source
    from stapo_bench.tasks.loading import TASK_PREFIX, known_contents, load_problems, load_task, task_names
    from stapo_bench.tasks.overlap import Overlap, contained, find_overlaps, read_training_texts
    from stapo_bench.tasks.prompt_style import check_style, json_keywords, read_examples, style_in_words
    from stapo_bench.tasks.prompts import (
        check_examples,
        render_all,
        render_prompt,
        render_prompts,
        render_question,
        resolve_format,
    )
    from stapo_bench.tasks.resources import resource_dir
    from stapo_bench.tasks.task import Source, Task
    from stapo_bench.tasks.tool import Tool, get_tool, without_calls
else:
    __getattr__ = lazy_names(__name__, __file__)
