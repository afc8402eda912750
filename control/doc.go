// Package control is an HTTP interface to a running kshare: a test in any language, or a shell script, moves time, looks at the states of records,
// makes things go wrong and starts from nothing again.
//
// Everything is JSON. Paths begin with /v1; /openapi.json describes them in OpenAPI 3.1. What a request may say and what it is answered with
// are Go structs, from which both the decoding and that document are made. An error is {"error": "what, where and what to do"} with a fitting status.
//
// Times are RFC 3339. Durations that a client sends are text in Go's form, such as 31s or 1.5s; those that it gets are milliseconds, in fields that end in Ms.
//
// Whoever reaches the interface can do everything with the cluster. It is therefore meant for the loopback interface, and refuses what a web page
// could have a browser send: requests of other origins, host names that it was not told (against DNS rebinding), and changes that are not said to be JSON.
package control
