"""What reaches a user: the one exception, text made safe for the place where it is shown, the end by Ctrl-C."""

from stapo_bench.errors.escaping import Target, safe_text, without_guard
from stapo_bench.errors.interrupts import interruptible, start_command, stopped_line
from stapo_bench.errors.messages import EXTRAS, StapoError, UsageError, did_you_mean, missing_package
from stapo_bench.errors.streams import SafeStream, redraw, safe_output, tell
