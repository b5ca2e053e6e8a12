"""What runs on a laptop or in CI: replays, simulations and unit tests of policies, and recordings for them.

It imports the evaluator; the evaluator does not import it, and its image does not contain it. It imports no other program.
"""
