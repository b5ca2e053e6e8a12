"""Why a pod group does not get the pods it lacks, from its controllers and their events.

Pure; imports `gangs.core` and `model`.
"""
