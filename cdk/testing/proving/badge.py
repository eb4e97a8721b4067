"""A badge that says how a proof ended, as SVG."""

from html import escape

from cdk.testing.proving.proof import Proof

_LABEL = "crash-proof"
_GREEN, _RED = "#2e7d32", "#c62828"
_LETTER, _PADDING = 6.6, 10
"""Pixels of a letter of the font, and beside a text."""


def badge(proof: Proof) -> str:
    """The badge of a proof: `crash-proof | 46 kills, 120 rows`, or `crash-proof | broken by 3 of 46 kills`."""
    kills, broken = len(proof.kills), sum(bool(kill.problems) for kill in proof.kills)
    text = f"{kills} kills, {sum(proof.rows.values()):,} rows"
    if not proof.proven:
        text = f"broken by {broken} of {kills} kills" if broken else "broken"
    label_width, text_width = (round(len(part) * _LETTER + 2 * _PADDING) for part in (_LABEL, text))
    color = _GREEN if proof.proven else _RED
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{label_width + text_width}" height="20" role="img" '
        f'aria-label="{_LABEL}: {escape(text)}"><title>{_LABEL}: {escape(text)}</title>'
        f'<rect width="{label_width + text_width}" height="20" rx="3" fill="{color}"/>'
        f'<path d="M3 0h{label_width - 3}v20H3a3 3 0 0 1-3-3V3a3 3 0 0 1 3-3z" fill="#555"/>'
        '<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">'
        f'<text x="{label_width / 2}" y="14">{_LABEL}</text>'
        f'<text x="{label_width + text_width / 2}" y="14">{escape(text)}</text></g></svg>\n'
    )
