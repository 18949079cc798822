"""The commands of ``stapo-bench``, which parse, call and print; exports them and ``run_commands``."""

from stapo_bench.commands import decide, doctor, evaluate, follow, import_files, launch, plot, report, score, tasks
from stapo_bench.commands.entry import HintingGroup, run_commands
from stapo_bench.commands.options import Number

COMMANDS = {
    "Get samples": (
        evaluate.eval_command,
        evaluate.continue_command,
        follow.follow,
        import_files.import_command,
    ),
    "Ask": (
        decide.compare,
        decide.why,
        decide.plan,
        decide.curve,
        decide.regimes,
        score.truncation,
        decide.audit,
    ),
    "Show": (
        score.score,
        score.table,
        report.report,
        report.watch,
        plot.plot,
        report.leaderboard,
        score.export,
    ),
    "Grade": (score.grade, score.arena),
    "Look around": (doctor.doctor, tasks.tasks, tasks.overlap, launch.launch),
}
"""The commands, by what one wants of them."""
