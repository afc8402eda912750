package connect

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"kshare/internal/jsonhttp"
)

// Handler answers the requests of Kafka Connect's REST interface that say how connectors do and have them do something else, and GET /metrics. names are the host names
// that clients may use besides localhost and addresses.
func (w *Worker) Handler(names ...string) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(w)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	for pattern, serve := range map[string]func(r *http.Request) (int, any, error){
		"GET /{$}": func(*http.Request) (int, any, error) {
			return http.StatusOK, map[string]string{"version": "4.4.0", "commit": "kshare"}, nil
		},
		"GET /connectors": func(*http.Request) (int, any, error) { return http.StatusOK, w.Connectors(), nil },
		"GET /connectors/{name}": func(r *http.Request) (int, any, error) {
			config, err := w.Config(r.PathValue("name"))
			return http.StatusOK, map[string]any{"name": r.PathValue("name"), "config": config, "type": "sink"}, err
		},
		"GET /connectors/{name}/config": func(r *http.Request) (int, any, error) {
			config, err := w.Config(r.PathValue("name"))
			return http.StatusOK, config, err
		},
		"GET /connectors/{name}/status": func(r *http.Request) (int, any, error) {
			status, err := w.Status(r.PathValue("name"))
			return http.StatusOK, status, err
		},
		"PUT /connectors/{name}/config":   w.putConfig,
		"PUT /connectors/{name}/pause":    w.act(http.StatusAccepted, w.Pause),
		"PUT /connectors/{name}/resume":   w.act(http.StatusAccepted, w.Resume),
		"PUT /connectors/{name}/stop":     w.act(http.StatusNoContent, w.Stop),
		"POST /connectors/{name}/restart": w.act(http.StatusNoContent, w.Restart),
		"DELETE /connectors/{name}":       w.act(http.StatusNoContent, w.Delete),
		"POST /connectors/{name}/tasks/{id}/restart": func(r *http.Request) (int, any, error) {
			id, err := strconv.Atoi(r.PathValue("id"))
			if err != nil {
				return 0, nil, ErrNoConnector
			}
			return http.StatusNoContent, nil, w.RestartTask(r.PathValue("name"), id)
		},
	} {
		mux.HandleFunc(pattern, func(rw http.ResponseWriter, r *http.Request) {
			code, body, err := serve(r)
			answer(rw, code, body, err)
		})
	}
	return (&jsonhttp.Guard{Names: names, Log: w.log}).Wrap(mux)
}

// act answers a request that has a connector do something.
func (w *Worker) act(code int, do func(name string) error) func(r *http.Request) (int, any, error) {
	return func(r *http.Request) (int, any, error) { return code, nil, do(r.PathValue("name")) }
}

func (w *Worker) putConfig(r *http.Request) (int, any, error) {
	config, name := map[string]string{}, r.PathValue("name")
	if err := json.NewDecoder(http.MaxBytesReader(nil, r.Body, jsonhttp.MaxBody)).Decode(&config); err != nil {
		return 0, nil, &ConfigError{"the body", "is no JSON object of texts: " + err.Error()}
	}
	if given, ok := config[nameKey]; ok && given != name {
		return 0, nil, wrong(nameKey, given, "is not the name in the path")
	}
	config[nameKey] = name
	code := http.StatusCreated
	if _, err := w.Config(name); err == nil {
		code = http.StatusOK
	}
	return code, map[string]any{"name": name, "config": config, "type": "sink"}, w.Put(config)
}

// answer writes an answer: errors as Kafka Connect does.
func answer(rw http.ResponseWriter, code int, body any, err error) {
	switch {
	case err == nil:
	case errors.Is(err, ErrNoConnector):
		code = http.StatusNotFound
	case errors.Is(err, ErrWorkerClosed):
		code = http.StatusServiceUnavailable
	default:
		code = http.StatusBadRequest
	}
	if err != nil {
		body = map[string]any{"error_code": code, "message": err.Error()}
	}
	if body == nil {
		rw.WriteHeader(code)
		return
	}
	jsonhttp.Write(rw, code, body)
}
