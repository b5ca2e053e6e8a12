"""What is reported about a policy: problems that its readings show, and warnings about valid parts."""
