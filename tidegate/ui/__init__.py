"""A page to look at: what the reading verbs print, in a browser on this machine, and a form that releases quarantine.

    verb      the verb `ui`: finds the deployment, makes the secrets, serves
    server    listens on 127.0.0.1
    guard     who may see a page, and who may change something
    app       which address is which page
    questions what a page asks the deployment for, as the documents of `tidegate.cli.json_output`
    picture   where the uploads are, as a river
    timeline  batches on a line of time
    notes     what is worth knowing, and needs nobody

It is served from this machine with the caller's credentials: a hosted page needs a login, a domain and a role. To give
up a batch stays with the verbs, because a person should read their help first.

It keeps nothing: whatever a page shows was read for it, a second before at most. No function and no job imports it.
"""
