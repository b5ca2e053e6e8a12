"""Files that users name on the command line. What parses their content belongs to the packages that use it."""
