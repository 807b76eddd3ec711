"""A schema registry that speaks the REST interface of Confluent's, and keeps its schemas as that one does."""
