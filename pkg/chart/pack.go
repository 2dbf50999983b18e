package chart

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// ReadFolder reads a chart that is not packed yet, from the folder that has its files. Names that begin with a dot are left out: they are
// of editors and of version control. The bounds are those of an archive, and links are refused as there.
func ReadFolder(dir string) (*Archive, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("read the chart: %w", err)
	}
	defer func() { _ = root.Close() }() // it is a folder
	out, entries := &Archive{}, 0
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fmt.Errorf("read the chart: %w", err)
		case name == ".":
			return nil
		case strings.HasPrefix(path.Base(name), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case !d.IsDir() && !d.Type().IsRegular():
			return fmt.Errorf("%s is a link or a device: only files and folders are packed", name)
		case !isPlain(name):
			return fmt.Errorf("the name %.200q can't be packed: it means something else on other systems", name)
		}
		if entries++; entries > MaxFiles {
			return fmt.Errorf("%s has more than %d files", dir, MaxFiles)
		}
		if d.IsDir() {
			return nil
		}
		return out.readFile(root, name)
	})
	if err != nil {
		return nil, err
	}
	if len(out.Files) == 0 {
		return nil, fmt.Errorf("%s has no files", dir)
	}
	out.sort()
	return out, nil
}

func (a *Archive) readFile(root *os.Root, name string) error {
	f, err := root.Open(name)
	if err != nil {
		return fmt.Errorf("read the chart: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxUnpacked-a.Size+1))
	if err != nil {
		return fmt.Errorf("read the chart: %w", err)
	}
	if a.Size += int64(len(data)); a.Size > MaxUnpacked {
		return errUnpacked
	}
	a.Files = append(a.Files, File{Name: name, Data: data})
	return nil
}

func (a *Archive) sort() {
	slices.SortFunc(a.Files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
}

// With returns an archive that has another file besides, in place of one of the same name.
func (a *Archive) With(name string, data []byte) *Archive {
	out := &Archive{Size: int64(len(data))}
	for _, f := range a.Files {
		if f.Name != name {
			out.Files = append(out.Files, f)
			out.Size += int64(len(f.Data))
		}
	}
	out.Files = append(out.Files, File{Name: name, Data: data})
	out.sort()
	return out
}

// Pack returns a chart as a gzipped tar archive that Read takes, with the files in the folder of the chart's name. The same files make the
// same bytes: nothing in it says when, where or by whom it was packed.
func Pack(name string, a *Archive) ([]byte, error) {
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	packed := tar.NewWriter(zipped)
	for _, f := range a.Files {
		h := tar.Header{Typeflag: tar.TypeReg, Name: name + "/" + f.Name, Mode: 0o644, Size: int64(len(f.Data))}
		if err := packed.WriteHeader(&h); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.Name, err)
		}
		if _, err := packed.Write(f.Data); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.Name, err)
		}
	}
	if err := errors.Join(packed.Close(), zipped.Close()); err != nil {
		return nil, fmt.Errorf("pack the chart: %w", err)
	}
	if _, err := Read(out.Bytes()); err != nil { // what the server would say of it is said here
		return nil, err
	}
	return out.Bytes(), nil
}
