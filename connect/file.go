package connect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// FileSink appends each value to a file as a line (FileStreamSink of Kafka): the property file, without which it is standard output. All tasks write to the same one.
type FileSink struct{}

// fileKey is where a FileSink writes.
const fileKey = "file"

// Validate takes any file name.
func (FileSink) Validate(config map[string]string) error {
	if name, ok := config[fileKey]; ok && name == "" {
		return wrong(fileKey, name, "is empty")
	}
	return nil
}

// TaskConfigs are all alike.
func (FileSink) TaskConfigs(config map[string]string, n int) []map[string]string {
	return alike(config, n)
}

// NewTask makes a task.
func (FileSink) NewTask() SinkTask { return &fileTask{} }

type fileTask struct {
	file  *os.File
	close bool
	sync  bool
}

func (t *fileTask) Start(_ context.Context, _ TaskContext, config map[string]string) error {
	name, ok := config[fileKey]
	if !ok {
		t.file = os.Stdout
		return nil
	}
	file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return &ConfigError{fileKey, err.Error()}
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	t.file, t.close, t.sync = file, true, info.Mode().IsRegular()
	return nil
}

func (t *fileTask) Open([]string) error { return nil }

// Put appends a batch with one write, so that the lines of several tasks do not mix. A full disk passes.
func (t *fileTask) Put(_ context.Context, records []*SinkRecord) error {
	var lines bytes.Buffer
	for _, r := range records {
		line, err := bytesOfValue(r.Value)
		if err != nil {
			return fmt.Errorf("%s-%d offset %d: %w", r.Topic, r.Partition, r.Offset, err)
		}
		lines.Write(line)
		lines.WriteByte('\n')
	}
	_, err := t.file.Write(lines.Bytes())
	return passing(err)
}

// Flush has the file on disk.
func (t *fileTask) Flush(context.Context) error {
	if !t.sync {
		return nil
	}
	return passing(t.file.Sync())
}

// passing makes an error of a file one that passes, where it may.
func passing(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EAGAIN) {
		return Retriable(err)
	}
	return err
}

func (t *fileTask) Stop() error {
	if !t.close {
		return nil
	}
	return t.file.Close()
}
