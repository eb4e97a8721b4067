"""Folders, local and in object stores, behind one interface; credentials for them; the lock of a pipeline's runs.

No table is known here: who asks gets bytes and names of files.
"""
