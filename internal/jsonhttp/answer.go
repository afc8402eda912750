package jsonhttp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// Refusal is an error that is the client's to mend.
type Refusal struct {
	Status  int
	message string
}

func (r *Refusal) Error() string { return r.message }

// Refuse makes a Refusal.
func Refuse(status int, format string, args ...any) error {
	return &Refusal{status, fmt.Sprintf(format, args...)}
}

// statusOf is the status of an error.
func statusOf(err error) int {
	var r *Refusal
	switch {
	case errors.As(err, &r):
		return r.Status
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return http.StatusServiceUnavailable
	default:
		return http.StatusInternalServerError
	}
}

// Problem is the answer to a request that failed.
type Problem struct {
	Error string `json:"error" doc:"what is wrong, where, and what to do"`
}

// Fail answers with an error.
func Fail(w http.ResponseWriter, err error) { Write(w, statusOf(err), Problem{err.Error()}) }

// Write answers with JSON.
func Write(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		status = http.StatusInternalServerError
		b, _ = json.Marshal(Problem{"the answer cannot be written as JSON: " + err.Error()}) // a string can
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // an error means that the client has gone
}

// Clip shortens what an error repeats of its request.
func Clip(s string) string {
	const most = 80
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}
