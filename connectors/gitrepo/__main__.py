"""`python -m connectors.gitrepo spec | check | discover | read`."""

from cdk import launch
from connectors.gitrepo.source import GitRepo

if __name__ == "__main__":
    launch(GitRepo)
