package connect

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// HTTPSink posts batches of records to a URL as a JSON array of objects with topic, partition, offset, deliveryCount, timestamp in ms, key, value and headers. Bytes that are not
// UTF-8 are base64. An answer of the 2xx is success; 408, 425, 429, those of the 5xx and no answer at all pass; any other is final.
type HTTPSink struct{ Transport http.RoundTripper }

// Properties of an HTTPSink.
const (
	urlKey          = "http.url"
	timeoutKey      = "http.timeout.ms"        // for one request, 30 s where it is not given
	batchKey        = "http.batch.max.records" // in one request, 500 where it is not given
	headerKeyPrefix = "http.header."           // of each request
)

type httpSettings struct {
	url     string
	timeout time.Duration
	batch   int
	headers map[string]string
}

func httpSettingsOf(config map[string]string) (s httpSettings, err error) {
	s.url = config[urlKey]
	u, err := url.Parse(s.url)
	switch {
	case s.url == "":
		return s, &ConfigError{urlKey, "is missing"}
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return s, wrong(urlKey, s.url, "is no http or https URL")
	}
	r := &reader{of: config}
	s.timeout = r.millis(timeoutKey, 30*time.Second, 1)
	s.batch = int(r.number(batchKey, 500, 1, 1_000_000))
	s.headers = map[string]string{}
	for key, v := range config {
		if name, ok := strings.CutPrefix(key, headerKeyPrefix); ok {
			if name == "" || strings.ContainsAny(name+v, "\r\n") {
				return s, wrong(key, v, "is no header")
			}
			s.headers[name] = v
		}
	}
	return s, r.err
}

// Validate looks at the URL and the bounds.
func (HTTPSink) Validate(config map[string]string) error {
	_, err := httpSettingsOf(config)
	return err
}

// TaskConfigs are all alike.
func (HTTPSink) TaskConfigs(config map[string]string, n int) []map[string]string {
	return alike(config, n)
}

// NewTask makes a task.
func (h HTTPSink) NewTask() SinkTask { return &httpTask{client: &http.Client{Transport: h.Transport}} }

type httpTask struct {
	client *http.Client
	set    httpSettings
}

func (t *httpTask) Start(_ context.Context, _ TaskContext, config map[string]string) (err error) {
	t.set, err = httpSettingsOf(config)
	return err
}

func (t *httpTask) Open([]string) error { return nil }

// posted is a record in the body of a request.
type posted struct {
	Topic         string         `json:"topic"`
	Partition     int32          `json:"partition"`
	Offset        int64          `json:"offset"`
	DeliveryCount int16          `json:"deliveryCount,omitempty"`
	Timestamp     int64          `json:"timestamp"`
	Key           any            `json:"key"`
	Value         any            `json:"value"`
	Headers       []postedHeader `json:"headers,omitempty"`
}

type postedHeader struct {
	Key   string `json:"key"`
	Value any    `json:"value"`
}

// readable are bytes as text where they are UTF-8; encoding/json makes others base64.
func readable(v any) any {
	if data, ok := v.([]byte); ok && utf8.Valid(data) {
		return string(data)
	}
	return v
}

func (t *httpTask) Put(ctx context.Context, records []*SinkRecord) error {
	for len(records) > 0 {
		n := min(len(records), t.set.batch)
		if err := t.post(ctx, records[:n]); err != nil {
			return err
		}
		records = records[n:]
	}
	return nil
}

func (t *httpTask) post(ctx context.Context, records []*SinkRecord) error {
	body := make([]posted, 0, len(records))
	for _, r := range records {
		p := posted{r.Topic, r.Partition, r.Offset, r.DeliveryCount, r.Timestamp.UnixMilli(), readable(r.Key), readable(r.Value), nil}
		for _, h := range r.Headers {
			var v any
			if h.Value != nil {
				v = readable(h.Value)
			}
			p.Headers = append(p.Headers, postedHeader{h.Key, v})
		}
		body = append(body, p)
	}
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, t.set.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.set.url, bytes.NewReader(data))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	for name, v := range t.set.headers {
		req.Header.Set(name, v)
	}
	resp, err := t.client.Do(req)
	if err != nil {
		return Retriable(err)
	}
	said, _ := io.ReadAll(io.LimitReader(resp.Body, 200))
	_ = resp.Body.Close()
	code := resp.StatusCode
	switch {
	case code/100 == 2:
		return nil
	case code/100 == 5, code == http.StatusRequestTimeout, code == http.StatusTooEarly, code == http.StatusTooManyRequests:
		return Retriable(refusedPost(t.set.url, code, said))
	}
	return refusedPost(t.set.url, code, said)
}

func refusedPost(to string, code int, said []byte) error {
	text := strconv.Itoa(code) + " " + http.StatusText(code)
	if s := strings.TrimSpace(string(said)); s != "" {
		text += ": " + s
	}
	return fmt.Errorf("%s: %s answers %s", urlKey, to, text)
}

func (t *httpTask) Flush(context.Context) error { return nil }

func (t *httpTask) Stop() error {
	t.client.CloseIdleConnections()
	return nil
}
