"""The run folder: its manifest, samples and grades, written so that a kill loses nothing, read as records."""

from typing import TYPE_CHECKING

from stapo_bench.plugins import lazy_names

if TYPE_CHECKING:
    from stapo_bench.runs.adapters import base_of, is_adapter
    from stapo_bench.runs.checkpoint import (
        SERVED,
        Checkpoint,
        check_format,
        check_hashes,
        checkpoint_files,
        expand,
        folder_label,
        read_adapted,
        read_checkpoint,
        served_checkpoint,
        stated_chat_template,
    )
    from stapo_bench.runs.copies import evidence_of_shared_starts, texts_of
    from stapo_bench.runs.export import Exported, export_runs
    from stapo_bench.runs.files import (
        append,
        can_write,
        cannot_write,
        open_own,
        own_file,
        own_folder,
        read_bounded,
        refuse_foreign,
        replacing,
        sync,
        write_atomically,
        write_parts,
        write_result,
        writing,
    )
    from stapo_bench.runs.folder import (
        DifferentRunError,
        differences,
        find_run,
        is_archive,
        make_folder,
        nothing_left_behind,
        open_run,
        state_stopping,
    )
    from stapo_bench.runs.golds import (
        data_digest,
        golds_at_hand,
        needs_data,
        problems_at_hand,
        read_golds,
        read_problems,
        split_golds,
        with_golds,
    )
    from stapo_bench.runs.graded_samples import GradedSample
    from stapo_bench.runs.grades import (
        JUDGED,
        Grades,
        append_grades,
        grade_files,
        graded_keys,
        grades_by,
        is_reported,
        read_grades,
        stream_grades,
    )
    from stapo_bench.runs.hub_models import local_checkpoint, name_on_hub
    from stapo_bench.runs.identity import Identity, TaskIdentity, optional_settings
    from stapo_bench.runs.loaded_run import (
        Drawn,
        LoadedRun,
        Rows,
        clustered,
        graded_sample,
        load_run,
        outcomes_of,
        samples_of,
    )
    from stapo_bench.runs.locks import has_locks, is_locked, locked, try_lock
    from stapo_bench.runs.manifest import (
        About,
        AskedTask,
        ContinuedFrom,
        Manifest,
        Stopping,
        load_manifest,
        write_manifest,
    )
    from stapo_bench.runs.measured import commit, is_dirty, measured_with
    from stapo_bench.runs.nested import canonical_digest, flatten
    from stapo_bench.runs.pace import Pace
    from stapo_bench.runs.run_grading import Grading, grade_run
    from stapo_bench.runs.sample_writer import SegmentWriter, lock_file, repair
    from stapo_bench.runs.sealed import complete_lines, seal, unseal
    from stapo_bench.runs.spent import note_spent, spent_on
    from stapo_bench.runs.store import KeySet, num_lines, read_outputs, read_samples, scan_keys, segment_sizes, segments
    from stapo_bench.runs.training_folder import FoundCheckpoint, complete_checkpoints, has_whole_weights, is_final
else:
    __getattr__ = lazy_names(__name__, __file__)
