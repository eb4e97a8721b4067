"""Folders, local and in object stores, behind one interface; their credentials; the lock of a pipeline's runs.

The folders know nothing of tables: they deal in bytes and file names.
"""
