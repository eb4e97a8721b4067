"""Budgets of calls, and their parts for tasks that run at once."""
