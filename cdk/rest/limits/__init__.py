"""Budgets of API calls, and their division among tasks that run at the same time."""
