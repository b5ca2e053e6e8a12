"""What a release is made of: the Helm chart from the kustomizations, versions, bill of materials. Not installed; run from a checkout."""
