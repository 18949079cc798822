"""The commands of ``stapo-bench``, which parse, call and print; exports their list and ``run_commands``."""

from stapo_bench.commands import decide, doctor, evaluate, follow, import_files, plot, report, score, tasks
from stapo_bench.commands.entry import HintingGroup, run_commands

COMMANDS = (
    evaluate.eval_command,
    evaluate.continue_command,
    follow.follow,
    import_files.import_command,
    score.grade,
    score.arena,
    score.score,
    score.table,
    score.truncation,
    score.export,
    decide.compare,
    decide.why,
    decide.plan,
    decide.audit,
    decide.curve,
    decide.regimes,
    plot.plot,
    tasks.tasks,
    tasks.overlap,
    report.report,
    report.leaderboard,
    report.watch,
    doctor.doctor,
)
