"""Gangs: pods that make sense only together are held by a scheduling gate until all exist and fit, and go in order of importance."""
