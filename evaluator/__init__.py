"""The central service: turns policies and readings into what the scheduler is told."""
