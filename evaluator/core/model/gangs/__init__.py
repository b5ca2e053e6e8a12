"""Labels and annotations of gangs' pods, as decoded. Pure."""
