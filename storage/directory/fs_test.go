package directory

import (
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// countingFS counts the syncs of segment files and can hold them up.
type countingFS struct {
	vfs.FS
	hold             atomic.Bool
	syncs            atomic.Int64
	entered, release chan struct{}
}

func (fs *countingFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := fs.FS.OpenReadWrite(name, c, opts...)
	if err != nil || !strings.HasSuffix(name, segmentSuffix) {
		return f, err
	}
	return &countingFile{File: f, fs: fs}, nil
}

type countingFile struct {
	vfs.File
	fs *countingFS
}

func (f *countingFile) Sync() error {
	f.fs.syncs.Add(1)
	if f.fs.hold.Load() {
		f.fs.entered <- struct{}{}
		<-f.fs.release
	}
	return f.File.Sync()
}
