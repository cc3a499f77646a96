"""One judgement of contenders on equal budgets: settings, scores, intervals and verdicts."""
