"""Leader election by a Lease, and the fence that rejects writes of a replica that lost it.

`lease` is pure; the package imports `kube` to read and write the Lease.
"""
