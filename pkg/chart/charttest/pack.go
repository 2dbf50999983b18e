// Package charttest packs charts for tests, and pushes them to registries.
package charttest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"maps"
	"slices"
	"testing"
)

// Pack returns a chart, as repositories have it, with files below the folder of its name.
func Pack(t testing.TB, name string, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for _, file := range slices.Sorted(maps.Keys(files)) {
		text := files[file]
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name + "/" + file, Mode: 0o644, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
