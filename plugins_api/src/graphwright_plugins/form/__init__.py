"""The form in which a backend wants its graphs, and how it is delivered; weights as constants among that."""
