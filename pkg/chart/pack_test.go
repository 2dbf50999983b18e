package chart_test

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/chart"
)

// folder is a chart that is not packed, with files by their names.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestAPackedChartIsReadAsItsFolder(t *testing.T) {
	files := map[string]string{"extension.yaml": "x", "templates/a.yaml": "a", "README_zh.md": "说明",
		"templates/b/" + strings.Repeat("long", 50): "b", "empty": ""}
	var packed [2][]byte
	for i := range packed { // modes, times and the order of the folder are no part of it
		dir := folder(t, files)
		for name, text := range map[string]string{".git/config": "secret", ".env": "secret", "templates/.a.yaml.swp": "secret"} {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if i == 1 {
			if err := os.Chmod(filepath.Join(dir, "empty"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		a, err := chart.ReadFolder(dir)
		if err != nil {
			t.Fatal(err)
		}
		if packed[i], err = chart.Pack("shop", a); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(packed[0], packed[1]) {
		t.Error("the same files make other bytes")
	}
	a, err := chart.Read(packed[0])
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range a.Files {
		got[f.Name] = string(f.Data)
	}
	if !reflect.DeepEqual(got, files) {
		t.Errorf("got %q", got)
	}
}

func TestWhatCantBePackedIsRefused(t *testing.T) { // X17
	for name, c := range map[string]struct {
		edit func(t *testing.T, dir string)
		say  string
	}{
		"a link":           {func(t *testing.T, dir string) { link(t, "/etc/passwd", filepath.Join(dir, "values.yaml")) }, "values.yaml is a link"},
		"a link to itself": {func(t *testing.T, dir string) { link(t, "a", filepath.Join(dir, "a")) }, "a is a link"},
		"a folder by link": {func(t *testing.T, dir string) { link(t, t.TempDir(), filepath.Join(dir, "charts")) }, "charts is a link"},
		"a name":           {func(t *testing.T, dir string) { write(t, filepath.Join(dir, `a\..\b`), nil) }, "can't be packed"},
		"too large unpacked": {func(t *testing.T, dir string) {
			f, err := os.Create(filepath.Join(dir, "zero"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if err := f.Truncate(chart.MaxUnpacked + 1); err != nil {
				t.Fatal(err)
			}
		}, "64 MiB unpacked"},
		"nothing": {func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, "extension.yaml")); err != nil {
				t.Fatal(err)
			}
		}, "no files"},
		"no folder": {func(t *testing.T, dir string) {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}, "read the chart"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t, map[string]string{"extension.yaml": "x"})
			c.edit(t, dir)
			a, err := chart.ReadFolder(dir)
			if err == nil {
				_, err = chart.Pack("shop", a)
			}
			if err == nil || !strings.Contains(err.Error(), c.say) {
				t.Errorf("got %v, want %q", err, c.say)
			}
		})
	}
}

func TestWhatReadRefusesIsNotPacked(t *testing.T) { // X17
	for _, names := range [][]string{nil, {"../values.yaml"}, {"a", "a"}, {"a", "a/b"}} {
		a := &chart.Archive{}
		for _, name := range names {
			a.Files = append(a.Files, chart.File{Name: name})
		}
		if raw, err := chart.Pack("shop", a); err == nil || raw != nil {
			t.Errorf("%q is packed", names)
		}
	}
}

func link(t *testing.T, to, name string) {
	t.Helper()
	if err := os.Symlink(to, name); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
