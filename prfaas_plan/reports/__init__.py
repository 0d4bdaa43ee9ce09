"""Results as documents: headings, tables with units and notes, for writers to lay out."""
