package control

import (
	"context"
	"errors"
	"net/http"
	"reflect"

	"kshare"
	"kshare/internal/jsonhttp"
)

// endpoint is something that the interface does: a row of the table from which the routes and their description are made.
type endpoint struct {
	method, path string
	operation    string // a name for it, unique
	summary      string
	status       int          // of success
	takes        reflect.Type // a struct of the request's fields
	gives        reflect.Type // a struct, nil for an answer without a body
	refusals     []int        // statuses that it refuses with, besides those that every endpoint has
	serve        func(*server, http.ResponseWriter, *http.Request)
}

// nothing is the answer without a body.
type nothing struct{}

// on makes an endpoint of a function.
func on[Q, A any](method, path, operation, summary string, f func(*server, context.Context, *Q) (*A, error), refusals ...int) endpoint {
	e := endpoint{method: method, path: path, operation: operation, summary: summary, status: http.StatusOK, takes: reflect.TypeFor[Q](), gives: reflect.TypeFor[A](), refusals: refusals}
	if e.gives == reflect.TypeFor[nothing]() {
		e.gives, e.status = nil, http.StatusNoContent
	}
	if e.gives == reflect.TypeFor[Created]() {
		e.status = http.StatusCreated
	}
	e.serve = func(s *server, w http.ResponseWriter, r *http.Request) {
		q := new(Q)
		if err := jsonhttp.Decode(w, r, q); err != nil {
			jsonhttp.Fail(w, err)
			return
		}
		a, err := f(s, r.Context(), q)
		switch {
		case errors.Is(err, kshare.ErrClosed):
			jsonhttp.Fail(w, jsonhttp.Refuse(http.StatusServiceUnavailable, "%s", plain(err)))
		case err != nil:
			jsonhttp.Fail(w, err)
		case e.gives == nil:
			w.WriteHeader(e.status)
		default:
			jsonhttp.Write(w, e.status, a)
		}
	}
	return e
}

// Created names what was made.
type Created struct {
	ID int `json:"id" doc:"names it in later requests"`
}
