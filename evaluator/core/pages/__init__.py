"""Types by which features contribute to pages, and what a page shows of a list."""
