"""Problems that agents find in logs of their nodes, as node conditions and Events. Imports the core only."""
