"""The published record, judged again: outputs that public repositories hold, and printed tables, to pages of facts."""
