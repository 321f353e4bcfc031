"""The playground: a page that shows what becomes of manifests while they are written; nothing leaves the process.

`answers` asks the functions of `mutate` and `explain`; `pages` serves them and the files of the page.
`examples.json` has the files of `examples/`, for a program that is installed without them; `make docs` writes it.
"""
