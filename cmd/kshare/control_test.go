package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// controlled starts kshare serve with a control interface and returns its URL.
func controlled(t *testing.T, args ...string) (*server, string) {
	t.Helper()
	s := serving(t, with(append([]string{"--http", "127.0.0.1:0"}, args...)...)...)
	line, err := s.stdout.ReadString('\n')
	require.NoError(t, err)
	require.Regexp(t, `^HTTP 127\.0\.0\.1:[1-9][0-9]*\n$`, line)
	url := "http://" + strings.TrimSuffix(strings.TrimPrefix(line, "HTTP "), "\n")
	line, err = s.stdout.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "EXPLORE "+url+"/explore/\n", line)
	return s, url
}

// exchange makes a request of the control interface that succeeds.
func exchange(t *testing.T, method, url, body string, answer any) {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	w, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer w.Body.Close()
	require.Less(t, w.StatusCode, 300)
	if answer != nil {
		require.NoError(t, json.NewDecoder(w.Body).Decode(answer))
	}
}

func TestControl(t *testing.T) {
	t.Parallel()
	ready := filepath.Join(t.TempDir(), "ready")
	s, url := controlled(t, "--clock", "virtual", "--clock-start", "2027-01-01T00:00:00Z", "--request-log", "10", "--ready-file", ready)
	content, err := os.ReadFile(ready)
	require.NoError(t, err)
	require.Equal(t, s.ready+"HTTP "+strings.TrimPrefix(url, "http://")+"\n", string(content))
	var now struct{ Now time.Time }
	exchange(t, http.MethodPost, url+"/v1/time/advance", `{"by":"31s"}`, &now)
	require.Equal(t, time.Date(2027, 1, 1, 0, 0, 31, 0, time.UTC), now.Now)
	exchange(t, http.MethodPost, url+"/v1/reset", "", nil)
	exchange(t, http.MethodGet, url+"/v1/requests", "", nil)
	require.Less(t, s.stop(t, syscall.SIGTERM), 10*time.Second)
	require.Empty(t, s.stderr.String(), "nothing is worth a warning")
}

// A virtual clock goes on from the latest time that a directory has seen, after a kill too, and whatever --clock-start says.
func TestVirtualTimeGoesOnInADirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "kept")
	start := func(clockStart string) (*server, string, time.Time) {
		s, url := controlled(t, "--dir", dir, "--topic", "orders", "--clock", "virtual", "--clock-start", clockStart)
		var now struct{ Now time.Time }
		exchange(t, http.MethodGet, url+"/v1/time", "", &now)
		return s, url, now.Now
	}
	s, url, now := start("2027-01-01T00:00:00Z")
	require.Equal(t, time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC), now)
	exchange(t, http.MethodPost, url+"/v1/time/advance", `{"by":"1h"}`, nil)
	require.NoError(t, s.cmd.Process.Kill())
	require.Error(t, s.cmd.Wait())

	s, url, now = start("2027-01-01T00:00:00Z")
	require.Equal(t, time.Date(2027, 1, 1, 1, 0, 0, 0, time.UTC), now)
	exchange(t, http.MethodPost, url+"/v1/time/advance", `{"by":"1m"}`, nil)
	s.stop(t, syscall.SIGTERM)

	s, _, now = start("2026-01-01T00:00:00Z")
	require.Equal(t, time.Date(2027, 1, 1, 1, 1, 0, 0, time.UTC), now)
	s.stop(t, syscall.SIGTERM)

	s, _, now = start("2030-01-01T00:00:00Z")
	require.Equal(t, time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), now, "a later start is a start")
	s.stop(t, syscall.SIGTERM)
}

// A scenario that waits does not hold up the end.
func TestStopEndsScenarios(t *testing.T) {
	t.Parallel()
	s, url := controlled(t)
	ended := make(chan error)
	go func() {
		_, err := http.Post(url+"/v1/scenarios", "application/json", strings.NewReader(`{"text":"topic begun\nadvance 10s\nadvance 10s\nadvance 10s\n"}`))
		ended <- err
	}()
	for begun := false; !begun; {
		var all struct{ Topics []struct{ Name string } }
		exchange(t, http.MethodGet, url+"/v1/topics", "", &all)
		for _, x := range all.Topics {
			begun = begun || x.Name == "begun"
		}
	}
	require.Less(t, s.stop(t, syscall.SIGTERM), 9*time.Second)
	require.Error(t, <-ended)
}

func TestWrongControlFlags(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"--clock \"sundial\" is neither machine nor virtual": {"--clock", "sundial"},
		"add --http":                       {"--clock", "virtual"},
		"add --clock virtual":              {"--clock-start", "2027-01-01T00:00:00Z"},
		"is no time like":                  {"--clock", "virtual", "--http", "127.0.0.1:0", "--clock-start", "yesterday"},
		"reaches 9999-01-01T00:00:00Z":     {"--clock", "virtual", "--http", "127.0.0.1:0", "--clock-start", "9999-06-01T00:00:00Z"},
		"--http \"8080\" is not host:port": {"--http", "8080"},
		"--http: listen tcp":               {"--http", "127.0.0.1:99999"},
		"a request log has 1 to":           {"--http", "127.0.0.1:0", "--request-log", "-1"},
	} {
		code, stdout, stderr := run(t, append([]string{"serve"}, with(args...)...)...)
		require.Equal(t, 1, code, args)
		require.Empty(t, stdout)
		require.Contains(t, stderr, want)
	}
}
