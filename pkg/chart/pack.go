package chart

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"slices"
	"strings"
)

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
