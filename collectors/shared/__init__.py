"""Readers and parsers that two or more collectors use: sysfs, procfs, mounts, netlink, D-Bus.

Imports only `interface`. What one collector uses lies in that collector's folder.
"""
