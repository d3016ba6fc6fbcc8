"""The table of networks with and without a learned loss."""
