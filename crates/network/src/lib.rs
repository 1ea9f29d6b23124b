//! Networks as data: the graph, its builders and files, and the four verbs.
