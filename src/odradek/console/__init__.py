"""The web console: a cluster's topics and brokers in a browser (docs/console.md).

`views` decides what a page shows, without I/O; `pages` asks the cluster and renders; `guards`, `sessions` and
`forms` decide who is let in; `app` puts them together, and `server` serves it.
"""
