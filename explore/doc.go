// Package explore shows people what a cluster does: the commands of package scenario typed one by one, what each showed, everything that can be seen
// afterwards and what has changed, with undo. A terminal and a web page are its faces; docs/explore-api.md describes what is between the page and this package.
//
// A [Session] is a run of a script on virtual time. It is a function of the script, so that undo is a run of what came before.
package explore
