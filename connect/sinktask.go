package connect

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kshare/shareclient"
)

// SinkConnector is a kind of sink: what a plug-in is.
type SinkConnector interface {
	// Validate tells what is wrong with a configuration, best as a *ConfigError. It touches nothing outside of the process.
	Validate(config map[string]string) error
	// TaskConfigs are the configurations of the tasks, 1 to maxTasks of them.
	TaskConfigs(config map[string]string, maxTasks int) []map[string]string
	// NewTask makes a task that has not started.
	NewTask() SinkTask
}

// SinkTask writes records somewhere. Its methods are called one after the other: Start, Open once, Put and Flush as often as there are records, Stop. A call that never returns
// is abandoned, and nothing is called after it but Stop, should it return after all.
type SinkTask interface {
	// Start prepares the task.
	Start(ctx context.Context, task TaskContext, config map[string]string) error
	// Open tells of all topics at once: with a share group no partitions are assigned and revoked.
	Open(topics []string) error
	// Put takes records, each of which may come again, in no order. The context ends when the worker has waited long enough for it to return.
	Put(ctx context.Context, records []*SinkRecord) error
	// Flush returns when all that was put is safe. Nothing is acknowledged before it has.
	Flush(ctx context.Context) error
	// Stop lets go of everything.
	Stop() error
}

// TransactionalTask is a task whose output is records of the cluster that it reads from, which the worker writes for it, with exactly.once.support=required.
type TransactionalTask interface {
	SinkTask
	// Outputs are the records to write in place of Put.
	Outputs(records []*SinkRecord) ([]*kgo.Record, error)
}

// TaskContext is what a task knows of the worker.
type TaskContext struct {
	Connector  string
	Task       int
	Log        *slog.Logger
	Worker     map[string]string // the worker's properties
	ClientOpts []kgo.Opt         // how brokers are reached
	// Report tells, while Put runs, that one record of it cannot be written and is not to hold up the others (ErrantRecordReporter of KIP-610). It is rejected.
	Report func(r *SinkRecord, why error)
}

// SinkRecord is a record after conversion and transformation.
type SinkRecord struct {
	Topic                  string
	Partition              int32
	Offset                 int64
	Key, Value             any     // nil, bool, int64, float64, string, []byte, []any, map[string]any
	KeySchema, ValueSchema *Schema // nil without a schema
	Headers                []kgo.RecordHeader
	Timestamp              time.Time
	DeliveryCount          int16 // 1 for the first delivery; 0 in an ordinary consumer group

	from *shareclient.Record
}

// Schema is a schema as Kafka's JSON converter writes it.
type Schema struct {
	Type     string    `json:"type"`
	Optional bool      `json:"optional"`
	Name     string    `json:"name,omitempty"`
	Field    string    `json:"field,omitempty"`
	Fields   []*Schema `json:"fields,omitempty"`
	Items    *Schema   `json:"items,omitempty"`
	Keys     *Schema   `json:"keys,omitempty"`
	Values   *Schema   `json:"values,omitempty"`
}

// RetriableError is an error that passes: the records may be delivered again.
type RetriableError struct{ Err error }

// Retriable makes an error one that passes; nil stays nil.
func Retriable(err error) error {
	if err == nil {
		return nil
	}
	return &RetriableError{err}
}

func (e *RetriableError) Error() string { return e.Err.Error() }

// Unwrap is the error that passes.
func (e *RetriableError) Unwrap() error { return e.Err }

// isRetriable tells whether an error passes.
func isRetriable(err error) bool {
	var r *RetriableError
	return errors.As(err, &r)
}
