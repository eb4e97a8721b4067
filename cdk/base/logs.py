"""The kit's logger. What becomes of its lines (LOG messages, a terminal) is the command line's business."""

import logging

logger = logging.getLogger("cdk")


class FirstWarning:
    """Logs the first of several warnings that mean the same."""

    def __init__(self) -> None:
        self._logged = False

    def __call__(self, text: str) -> None:
        """Log `text` unless it is empty or one was logged before."""
        if text and not self._logged:
            self._logged = True
            logger.warning(text)
