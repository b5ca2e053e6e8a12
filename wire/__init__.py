"""What the agent and the evaluator say to each other."""
