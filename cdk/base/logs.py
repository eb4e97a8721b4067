"""The kit's logger. What becomes of its lines (LOG messages, a terminal) is the command line's business."""

import logging

logger = logging.getLogger("cdk")
