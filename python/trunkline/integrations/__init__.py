"""Trunkline in other libraries: translation of metadata only. Each module imports its library; the package does not."""
