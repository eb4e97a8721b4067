"""What a sync is: settings, the loop that plans, reads and commits, what runs in a task, and the reports.

Nothing in here knows Spark: tasks run on whatever `Workers` are passed, in this process too.
"""
