"""What models read about the fleet's tools: one file for each."""
