"""What holds for all tests."""

from hypothesis import settings

# A machine that is busy with something else is no defect of ours.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
