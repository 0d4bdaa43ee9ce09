"""Writers: a document as a terminal table, Markdown, CSV or JSON. They lay out and compute nothing."""
