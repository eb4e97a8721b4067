"""What lies in the target of a pipeline: its tables, their rows in SQL, and the runs that filled them."""
