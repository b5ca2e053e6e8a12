"""plimsoll-evaluator check: what is wrong with policy manifests, and what each rule of them means. Offline."""
