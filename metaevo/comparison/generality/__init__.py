"""`metaevo generality RULE`: how well a rule trains PPO on a fixed list of tasks, as one number."""
