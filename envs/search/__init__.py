"""Question answering over a corpus that has to be searched: a generated one of linked facts, or a user's own."""
