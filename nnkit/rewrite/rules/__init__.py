"""The rules, one file each; `nnkit.rewrite.catalogue` is the table of them."""
