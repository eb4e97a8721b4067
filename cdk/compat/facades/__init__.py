"""What custom code sees of this kit's objects, under the names that it was written for."""
