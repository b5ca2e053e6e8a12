"""Leader election by a Lease, and the fence that rejects writes of a replica that lost it.

`lease` is pure; the package imports `kubeapi` to read and write the Lease.
"""
