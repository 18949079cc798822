"""What reaches a user: the one exception, text made safe for its place, the end by Ctrl-C, how far a command is."""

from stapo_bench.errors.escaping import Target, safe_text, without_guard
from stapo_bench.errors.interrupts import Stopped, exit_code_of, interruptible, start_command, stopped_line
from stapo_bench.errors.messages import EXTRAS, StapoError, UsageError, did_you_mean, missing_package
from stapo_bench.errors.stages import LOG_SECONDS, TERMINAL_SECONDS, duration, watched, watching
from stapo_bench.errors.streams import SafeStream, redraw, redraws, safe_output, tell
