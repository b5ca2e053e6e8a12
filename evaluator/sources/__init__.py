"""Where readings come from; each source writes into the store and says when something changed."""
