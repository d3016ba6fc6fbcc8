"""The table of test AUCs of methods that learn a link."""
