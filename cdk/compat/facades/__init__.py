"""Facades: the kit's objects in the form that custom code was written for."""
