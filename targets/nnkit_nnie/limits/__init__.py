"""What the NNIE does not take: limits on layers, segments and tags, each with its message and remedy."""
