package recording

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

const (
	castSuffix = ".cast"
	// metaSuffix is that of the sidecar of a recording that has ended, and openSuffix while it goes on.
	metaSuffix = ".json"
	openSuffix = ".open" + metaSuffix
	// pruneEvery is how often the bounds of a folder are enforced, besides after each recording.
	pruneEvery = time.Minute
	// abandoned is how long a recording without an end is unchanged that no server writes any more: one that is written is touched more often.
	abandoned = 10 * time.Minute
	touch     = time.Minute
)

// Folder is the sink that has two files of each recording: <session>.cast, and <session>.json, which is <session>.open.json until the
// session has ended. Only their owner may read them.
type Folder struct {
	Path string
	// MaxBytes and MaxAge bound what is in the folder: the oldest recordings that have ended are deleted. 0 is without a bound.
	MaxBytes int64
	MaxAge   time.Duration
	Now      func() time.Time

	prune chan struct{}
	open  sync.Map // ids of the recordings that are written here
}

// NewFolder makes the folder if it is not there.
func NewFolder(path string, maxBytes int64, maxAge time.Duration, now func() time.Time) (*Folder, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of recordings (terminal.recording.folder.path): %w", err)
	}
	return &Folder{Path: path, MaxBytes: maxBytes, MaxAge: maxAge, Now: now, prune: make(chan struct{}, 1)}, nil
}

// Open implements Sink.
func (f *Folder) Open(_ context.Context, id string, meta []byte) (_ Store, err error) {
	s := &folderStore{folder: f, path: filepath.Join(f.Path, id)}
	f.open.Store(id, nil)
	defer func() {
		if err != nil {
			s.discard()
		}
	}()
	// With its text, so that there is room for it.
	if err = writeNew(s.path+openSuffix, meta); err != nil {
		return nil, fmt.Errorf("begin a recording: %w", err)
	}
	if s.cast, err = os.OpenFile(s.path+castSuffix, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err != nil {
		return nil, fmt.Errorf("begin a recording: %w", err)
	}
	s.touched = f.Now()
	return s, nil
}

// writeNew writes a file that is not there yet.
func writeNew(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// folderStore is a recording in a folder.
type folderStore struct {
	folder  *Folder
	path    string // without a suffix
	cast    *os.File
	length  int64
	touched time.Time
}

// Write implements Store. What was written in part is cut off again.
func (s *folderStore) Write(p []byte) error {
	if _, err := s.cast.Write(p); err != nil {
		err = fmt.Errorf("write a recording: %w", err)
		if cut := s.cast.Truncate(s.length); cut != nil {
			return errors.Join(err, cut)
		}
		_, seek := s.cast.Seek(s.length, 0)
		return errors.Join(err, seek)
	}
	s.length += int64(len(p))
	return nil
}

// Check implements Store: a file that was deleted can still be written to.
func (s *folderStore) Check() error {
	own, err := s.cast.Stat()
	if err != nil {
		return fmt.Errorf("check a recording: %w", err)
	}
	found, err := os.Lstat(s.path + castSuffix)
	switch {
	case err != nil:
		return fmt.Errorf("check a recording: %w", err)
	case !os.SameFile(own, found):
		return errors.New("check a recording: another file is in its place")
	case found.Size() < s.length:
		return errors.New("check a recording: it was cut off")
	}
	if now := s.folder.Now(); now.Sub(s.touched) >= touch {
		s.touched = now
		_ = os.Chtimes(s.path+castSuffix, now, now) //nolint:errcheck // it only looks older then
	}
	return nil
}

// Lost implements Store.
func (s *folderStore) Lost() <-chan error { return nil }

// Finish implements Store.
func (s *folderStore) Finish(_ context.Context, meta []byte) error {
	defer signal(s.folder.prune)
	if meta == nil {
		s.discard()
		return nil
	}
	defer s.folder.open.Delete(filepath.Base(s.path))
	// Written under another name, and renamed: a sidecar is never incomplete.
	next := s.path + openSuffix
	err := errors.Join(s.cast.Sync(), s.cast.Close())
	if wrong := os.WriteFile(next+".tmp", meta, 0o600); wrong != nil {
		_ = os.Remove(next + ".tmp")
		return fmt.Errorf("finish a recording: %w", errors.Join(err, wrong))
	}
	if err = errors.Join(err, os.Rename(next+".tmp", s.path+metaSuffix), os.Remove(next)); err != nil {
		return fmt.Errorf("finish a recording: %w", err)
	}
	return nil
}

// discard removes what was made.
func (s *folderStore) discard() {
	if s.cast != nil {
		_ = s.cast.Close()
	}
	_ = os.Remove(s.path + castSuffix)
	_ = os.Remove(s.path + openSuffix)
	s.folder.open.Delete(filepath.Base(s.path))
}

// Run implements Sink: it enforces the bounds.
func (f *Folder) Run(ctx context.Context) {
	tick := time.NewTicker(pruneEvery)
	defer tick.Stop()
	for {
		if err := f.Prune(); err != nil {
			klog.ErrorS(err, "Old recordings of terminals can't be deleted", "folder", f.Path)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-f.prune:
		}
	}
}

// stored is a recording in the folder.
type stored struct {
	id    string
	bytes int64
	at    time.Time // of the last change
	ended bool
}

// Prune deletes the oldest recordings as the bounds ask for. Those that go on stay, also those of another server.
func (f *Folder) Prune() error {
	all, err := f.list()
	if err != nil {
		return err
	}
	var sum int64
	for _, s := range all {
		sum += s.bytes
	}
	slices.SortFunc(all, func(a, b stored) int { return a.at.Compare(b.at) })
	now := f.Now()
	for _, s := range all {
		age := now.Sub(s.at)
		_, open := f.open.Load(s.id)
		if open || !s.ended && age < abandoned {
			continue
		}
		old, much := f.MaxAge > 0 && age > f.MaxAge, f.MaxBytes > 0 && sum > f.MaxBytes
		if !old && !much {
			continue
		}
		for _, suffix := range []string{castSuffix, openSuffix, openSuffix + ".tmp", metaSuffix} {
			if wrong := os.Remove(filepath.Join(f.Path, s.id+suffix)); wrong != nil && !errors.Is(wrong, fs.ErrNotExist) {
				err = errors.Join(err, wrong)
			}
		}
		sum -= s.bytes
		klog.InfoS("recording of a terminal deleted", "recording", s.id, "age", age.Round(time.Second), "tooOld", old, "bytes", s.bytes)
	}
	return err
}

// list returns the recordings in the folder. Files that are none are left alone.
func (f *Folder) list() ([]stored, error) {
	entries, err := os.ReadDir(f.Path)
	if err != nil {
		return nil, err
	}
	found := map[string]*stored{}
	for _, e := range entries {
		id, suffix, _ := strings.Cut(e.Name(), ".")
		if suffix = "." + suffix; !isID(id) || !slices.Contains([]string{castSuffix, openSuffix, openSuffix + ".tmp", metaSuffix}, suffix) {
			continue
		}
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		s := found[id]
		if s == nil {
			s = &stored{id: id}
			found[id] = s
		}
		s.bytes += info.Size()
		if info.ModTime().After(s.at) {
			s.at = info.ModTime()
		}
		s.ended = s.ended || suffix == metaSuffix
	}
	all := make([]stored, 0, len(found))
	for _, s := range found {
		all = append(all, *s)
	}
	return all, nil
}
