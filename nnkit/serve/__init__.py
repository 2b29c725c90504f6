"""`nnkit serve`: a network and pictures in, a verified release out, for a team's browsers and scripts."""
