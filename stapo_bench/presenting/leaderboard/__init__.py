"""Many runs as one static page: places and groups instead of ranks that chance has made.

from stapo_bench.presenting.leaderboard import write_leaderboard

write_leaderboard([Path("results/base"), Path("results/stapo")], Path("leaderboard.html"))
"""

from stapo_bench.presenting.leaderboard.page import render_leaderboard, write_leaderboard
