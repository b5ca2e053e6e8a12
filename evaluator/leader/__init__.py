"""Leader election by a Lease, and the fence that rejects writes of a replica that lost it.

`lease` is pure; imports `kubeapi` for reading and writing the Lease.
"""
