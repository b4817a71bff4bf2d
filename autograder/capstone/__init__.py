"""The capstone: a package of the learner's own, its judge's report and the leaderboard."""
