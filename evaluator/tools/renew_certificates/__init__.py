"""The command `plimsoll renew-certificates`: replaces a CA whose key is gone, and the certificates that it signed.

The step to take is derived from the secrets and the folder: nothing else is stored.
"""
