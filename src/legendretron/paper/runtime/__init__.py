"""The time that the table of LIBSVM data sets takes."""
