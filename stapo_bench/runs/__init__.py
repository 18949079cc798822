"""The run folder: its manifest, samples and grades, written so that a kill loses nothing, read as records."""

from stapo_bench.runs.checkpoint import Checkpoint, check_hashes, expand, file_hashes, folder_label, read_checkpoint
from stapo_bench.runs.columns import Draw
from stapo_bench.runs.digests import canonical_digest, data_digest, prompts_digest
from stapo_bench.runs.export import export_run
from stapo_bench.runs.folder import DifferentRunError, differences, find_run, make_folder, open_run, state_stopping
from stapo_bench.runs.golds import read_golds, read_problems, split_golds, with_golds
from stapo_bench.runs.graded_samples import (
    Grades,
    LoadedRun,
    load_run,
    outcomes_of,
    read_draws,
    read_grades,
)
from stapo_bench.runs.grades import Grading, append_grades, damaged_grade, grade_from_line, grade_run, graded_keys
from stapo_bench.runs.manifest import (
    About,
    AskedTask,
    ContinuedFrom,
    Identity,
    Manifest,
    Stopping,
    TaskIdentity,
    load_manifest,
    write_manifest,
)
from stapo_bench.runs.measured import commit, is_dirty, measured_with
from stapo_bench.runs.nested import flatten
from stapo_bench.runs.pace import Pace
from stapo_bench.runs.sealed import seal, unseal
from stapo_bench.runs.store import (
    KeySet,
    SegmentWriter,
    complete_lines,
    read_samples,
    repair,
    scan_keys,
    segment_sizes,
    segments,
    write_atomically,
)
