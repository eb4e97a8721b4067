"""Proving that a connector whose syncs are killed loses no row and writes none twice."""
