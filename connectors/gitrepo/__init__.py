"""Gitrepo: the commits of a Git repository on this machine, without HTTP."""

from connectors.gitrepo.source import GitRepo

__all__ = ["GitRepo"]
