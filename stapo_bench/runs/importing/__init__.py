"""Samples that other tools drew: their files become run folders, and nothing is filled in that they do not say."""

from typing import TYPE_CHECKING

from stapo_bench.plugins import lazy_names

if TYPE_CHECKING:
    from stapo_bench.runs.importing.answers import Stated
    from stapo_bench.runs.importing.formats import format_names
    from stapo_bench.runs.importing.labelled import Labelled, read_labelled
    from stapo_bench.runs.importing.plain import USUAL, parse_map
    from stapo_bench.runs.importing.writing import Imported, ImportOptions, import_run
else:
    __getattr__ = lazy_names(__name__, __file__)
