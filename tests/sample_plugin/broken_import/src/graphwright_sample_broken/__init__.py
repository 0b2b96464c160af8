"""Fails when imported, as a package does whose native library is missing."""

raise ImportError("libsample.so.3: cannot open shared object file")
