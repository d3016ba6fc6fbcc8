"""The figure of accuracies by the number of training images."""
