"""Words of a policy's status that both its writer and a new process that reads it use."""

VALID = "Valid"

AWAITED = "ReadingsAwaited"
"""The reason of a condition while first readings are awaited."""
