"""`metaevo generality RULE`: score how well a rule trains PPO on a fixed list of tasks."""
