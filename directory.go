package kshare

import (
	"log/slog"

	"kshare/config"
	"kshare/storage"
	"kshare/storage/directory"
)

// WithDirectory keeps the cluster in a directory, which is made if it does not exist: a cluster that is started on it again goes on
// where the last one stopped, also after a kill. What was answered is never lost with the process; log.flush.interval.messages=1
// makes it survive a loss of power too. A virtual clock that is behind the latest time that the directory has seen goes on from there: what is stored is never
// of a later time than now.
func WithDirectory(dir string) Option {
	return func(o *options) error {
		o.broker.AnswerBytes = directoryAnswerBytes
		o.keepTime = true
		o.openStore = func(static *config.Static, log *slog.Logger) (storage.Store, error) {
			return directory.Open(dir, directoryOptions(static, log))
		}
		return nil
	}
}

// directoryOptions are how a directory is kept: Kafka's own keys say when what was written is flushed to the disk.
func directoryOptions(static *config.Static, log *slog.Logger) directory.Options {
	o := directory.Options{Log: log}
	v := static.Values()
	switch {
	case v.Long("log.flush.interval.messages") == 1:
		o.Flush = directory.FlushAlways
	case !v.IsNull("log.flush.interval.ms"):
		o.Flush = directory.FlushInterval(v.Duration("log.flush.interval.ms"))
	}
	return o
}

// directoryAnswerBytes bounds what clients that do not take their answers can make the process hold of records read from files.
const directoryAnswerBytes = 256 << 20
