"""The table of LIBSVM data sets under label noise."""
