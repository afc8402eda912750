package explore

// pagePolicy lets the page run and ask for its own files and the API, and nothing else: no script, style or request that text of a client could bring in.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
