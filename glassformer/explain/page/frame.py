"""The page of a walk in a notebook: an iframe that runs its own scripts and reaches nothing else, and a fallback.

The fallback is plain HTML, which viewers show that take iframes or scripts away.
"""

from dataclasses import dataclass, field

HEIGHT = 760
MOST_NUMBERS = 1_200_000
"""The float32 numbers of a displayed walk: 5 MB, of which about 4 MB of compressed text stay in the notebook."""

_SANDBOX = "allow-scripts allow-downloads"  # its origin is opaque: it sees neither the notebook nor a server
_STYLE = "width:100%;border:1px solid #8886;border-radius:8px;background:transparent"


@dataclass(frozen=True)
class PageFrame:
    """A page of ``page_html`` that a notebook displays; ``height`` in pixels."""

    page: str = field(repr=False)
    fallback: str = field(repr=False)
    height: int = HEIGHT

    def _repr_html_(self) -> str:
        """The iframe, then the fallback folded."""
        text = self.page.replace("&", "&amp;").replace("'", "&#39;")
        return (
            f"<iframe title='glassformer' sandbox='{_SANDBOX}' loading='lazy' height='{self.height}' "
            f"style='{_STYLE}' srcdoc='{text}'></iframe>"
            f"<details><summary>The same heads as still pictures</summary>{self.fallback}</details>"
        )
