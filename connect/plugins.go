package connect

import (
	"net/http"
)

// Plugins are the sinks that come with the package, by connector.class.
func Plugins() map[string]func() SinkConnector {
	return map[string]func() SinkConnector{
		"FileSink":  func() SinkConnector { return FileSink{} },
		"HTTPSink":  func() SinkConnector { return HTTPSink{Transport: http.DefaultTransport} },
		"KafkaSink": func() SinkConnector { return KafkaSink{} },
		"org.apache.kafka.connect.file.FileStreamSinkConnector": func() SinkConnector { return FileSink{} },
	}
}

// alike are the configurations of tasks that do not differ.
func alike(config map[string]string, n int) (all []map[string]string) {
	for range n {
		all = append(all, config)
	}
	return all
}
