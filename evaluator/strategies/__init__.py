"""The four strategies of a policy, each a pure function from readings to what it asks for."""
