"""What the translator knows about Python values: one VariableTracker class for each kind."""
