"""Why do two numbers for the same thing differ? The gap between two runs, or a run and a printed cell, in parts."""
