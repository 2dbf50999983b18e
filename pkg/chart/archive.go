// Package chart reads charts of extensions and the indexes of the repositories that have them. Both come from elsewhere: nothing of them is
// trusted, everything has a bound, and an error says what is wrong and where.
package chart

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The bounds of an archive.
const (
	// MaxArchive is how large it may be, compressed.
	MaxArchive = 16 << 20
	// MaxUnpacked is how large all of it may be, unpacked.
	MaxUnpacked = 64 << 20
	// MaxFiles is how many files and folders it may have.
	MaxFiles = 10_000
	// maxName bounds the name of a file, in bytes.
	maxName = 1024
)

// File is a file of a chart.
type File struct {
	// Name is its path below the chart's folder, with slashes.
	Name string
	Data []byte
}

// Archive are the files of a chart.
type Archive struct {
	// Files are sorted by their names.
	Files []File
	// Size is how many bytes the files have together.
	Size int64
}

// Digest returns the SHA-256 of a chart as indexes name it: in hexadecimal.
func Digest(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// File returns the content of a file, and whether there is such a file.
func (a *Archive) File(name string) ([]byte, bool) {
	i, ok := slices.BinarySearchFunc(a.Files, name, func(f File, name string) int { return strings.Compare(f.Name, name) })
	if !ok {
		return nil, false
	}
	return a.Files[i].Data, true
}

// Read reads a chart that is a gzipped tar archive with one folder.
func Read(raw []byte) (*Archive, error) {
	if len(raw) > MaxArchive {
		return nil, fmt.Errorf("the chart has more than %d MiB", MaxArchive>>20)
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, errors.New("the chart is no gzipped archive")
	}
	// Headers count too, and so does what a reader would skip: the bound is on what is unpacked at all.
	r := &reader{tar: tar.NewReader(&limited{r: unzipped, left: MaxUnpacked}), seen: map[string]bool{}}
	if err := r.read(); err != nil {
		return nil, err
	}
	r.out.sort()
	return &r.out, nil
}

// reader reads the entries of one archive.
type reader struct {
	tar *tar.Reader
	// top is the one folder, and seen are the names so far: true is a file.
	top     string
	seen    map[string]bool
	entries int
	out     Archive
}

func (r *reader) read() error {
	for {
		h, err := r.tar.Next()
		switch {
		case errors.Is(err, io.EOF):
			if len(r.out.Files) == 0 {
				return errors.New("the chart has no files")
			}
			return nil
		case errors.Is(err, errUnpacked):
			return err
		case err != nil:
			return fmt.Errorf("the archive of the chart is broken after %d entries", r.entries)
		}
		if r.entries++; r.entries > MaxFiles {
			return fmt.Errorf("the chart has more than %d files", MaxFiles)
		}
		if err := r.entry(h); err != nil {
			return err
		}
	}
}

func (r *reader) entry(h *tar.Header) error {
	switch h.Typeflag {
	case tar.TypeXGlobalHeader:
		return nil
	case tar.TypeReg, tar.TypeDir:
	default:
		return fmt.Errorf("the chart has %.200q, which is a link or a device: only files and folders are taken", h.Name)
	}
	name, err := r.below(h.Name, h.Typeflag == tar.TypeDir)
	if err != nil || h.Typeflag == tar.TypeDir {
		return err
	}
	if _, ok := r.seen[name]; ok {
		return fmt.Errorf("the chart has %.200q twice", name)
	}
	r.seen[name] = true
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if r.seen[dir] {
			return fmt.Errorf("the chart has %.200q as a file and as a folder", dir)
		}
		r.seen[dir] = false
	}
	// A sparse file says a size without having it: what is read counts.
	left := MaxUnpacked - r.out.Size + 1
	// Room for what the header says, at once: a buffer that grows takes several times as much.
	content := bytes.NewBuffer(make([]byte, 0, min(max(h.Size, 0), left)+bytes.MinRead))
	_, err = content.ReadFrom(io.LimitReader(r.tar, left))
	switch {
	case errors.Is(err, errUnpacked):
		return err
	case err != nil:
		return fmt.Errorf("the archive of the chart is broken in %.200q", name)
	}
	if r.out.Size += int64(content.Len()); r.out.Size > MaxUnpacked {
		return errUnpacked
	}
	r.out.Files = append(r.out.Files, File{Name: name, Data: slices.Clip(content.Bytes())})
	return nil
}

// below returns the name of an entry below the one folder.
func (r *reader) below(full string, dir bool) (string, error) {
	clean := strings.TrimPrefix(full, "./")
	if dir {
		if clean = strings.TrimSuffix(clean, "/"); clean == "" || clean == "." {
			return "", nil
		}
	}
	if !isPlain(clean) {
		return "", fmt.Errorf("the chart has a file with the name %.200q: names are relative, with slashes, and have no part . or .. in them", full)
	}
	top, name, ok := strings.Cut(clean, "/")
	if r.top == "" {
		r.top = top
	}
	if top != r.top || !ok && !dir {
		return "", fmt.Errorf("the chart has %.200q besides the folder %.200q: a chart is one folder", full, r.top)
	}
	return name, nil
}

// isPlain reports whether a name can only mean one file below a folder, on any system.
func isPlain(name string) bool {
	if name == "" || len(name) > maxName || path.Clean(name) != name || path.IsAbs(name) || name == ".." || strings.HasPrefix(name, "../") ||
		strings.ContainsAny(name, `\:`) || !utf8.ValidString(name) {
		return false
	}
	return !strings.ContainsFunc(name, unicode.IsControl)
}

var errUnpacked = fmt.Errorf("the chart has more than %d MiB unpacked", MaxUnpacked>>20)

// limited is a reader that ends in an error beyond a length.
type limited struct {
	r    io.Reader
	left int64
}

// Read implements io.Reader.
func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		var one [1]byte
		if n, err := l.r.Read(one[:]); n == 0 {
			return 0, err
		}
		return 0, errUnpacked
	}
	n, err := l.r.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	return n, err
}
