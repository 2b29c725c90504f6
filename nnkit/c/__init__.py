"""The C back end: what generated C is made of, whoever generates it.

The kernels of each arithmetic have a folder of their own. Here is what they share: the header with the integer
types, names, comments and numbers as C text, the templates' environment, and this machine's compiler.
"""
