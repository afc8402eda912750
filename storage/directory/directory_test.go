package directory

import (
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"kshare/storage"
	"kshare/storage/storagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// small makes stores whose segments and memory are small, so that few batches use every path.
func small(flush Flush) Options {
	return Options{Flush: flush, SegmentBytes: 5000, RecentBytes: 4000, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
}

var policies = map[string]Flush{"Never": FlushNever, "Always": FlushAlways, "Interval": FlushInterval(time.Hour)}

func TestDirectory(t *testing.T) {
	for name, flush := range policies {
		t.Run(name, func(t *testing.T) {
			storagetest.Run(t, func() (storage.Store, func(storage.Store) (storage.Store, error), error) {
				fs := vfs.NewMem()
				s, err := OpenFS(fs, "a/dir", small(flush))
				return s, func(s storage.Store) (storage.Store, error) {
					if err := s.Close(); err != nil {
						return nil, err
					}
					return OpenFS(fs, "a/dir", small(flush))
				}, err
			})
		})
	}
}
