package chart_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/boundedyaml"
	"kapis.dev/ks-apiserver/pkg/chart"
)

// packed returns an archive of entries.
func packed(t testing.TB, entries ...tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for _, h := range entries {
		body := h.Uname // the content
		h.Uname, h.Size, h.Mode = "", int64(len(body)), 0o644
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func file(name, content string) tar.Header {
	return tar.Header{Name: name, Uname: content, Typeflag: tar.TypeReg}
}

func shop(extra ...tar.Header) []tar.Header {
	return append([]tar.Header{
		{Name: "shop/", Typeflag: tar.TypeDir},
		file("shop/Chart.yaml", "apiVersion: v2\nname: shop\nversion: 1.0.0\n"),
		file("shop/extension.yaml", "name: shop\nversion: 1.0.0\ndisplayName: {en: Shop}\nksVersion: '>=4.0.0'\n"),
	}, extra...)
}

func TestAChartIsRead(t *testing.T) {
	a, err := chart.Read(packed(t, shop(file("shop/templates/a.yaml", "a"), file("./shop/README.md", "b"))...))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range a.Files {
		names = append(names, f.Name)
	}
	if got := strings.Join(names, " "); got != "Chart.yaml README.md extension.yaml templates/a.yaml" {
		t.Errorf("%s", got)
	}
	if content, ok := a.File("templates/a.yaml"); !ok || string(content) != "a" {
		t.Errorf("%q %v", content, ok)
	}
	if _, ok := a.File("templates"); ok {
		t.Error("a folder is a file")
	}
	e, err := a.Extension()
	if err != nil || e.Name != "shop" || e.DisplayName["en"] != "Shop" {
		t.Errorf("%+v %v", e, err)
	}
}

func TestWhatIsNoChartIsRefused(t *testing.T) { // X17
	many := shop()
	for i := range chart.MaxFiles {
		many = append(many, file(fmt.Sprintf("shop/f%d", i), ""))
	}
	zeros := strings.Repeat("\x00", 16<<20)
	good := packed(t, shop()...)
	for name, c := range map[string]struct {
		raw []byte
		say string
	}{
		"Nothing":           {nil, "no gzipped archive"},
		"Text":              {[]byte("hello"), "no gzipped archive"},
		"Empty":             {packed(t), "no files"},
		"CutOff":            {good[:len(good)-40], "broken"},
		"Large":             {make([]byte, chart.MaxArchive+1), "more than 16 MiB"},
		"Bomb":              {packed(t, file("a/1", zeros), file("a/2", zeros), file("a/3", zeros), file("a/4", zeros)), "64 MiB unpacked"},
		"Many":              {packed(t, many...), "more than 10000 files"},
		"SymbolicLink":      {packed(t, shop(tar.Header{Name: "shop/l", Linkname: "/etc/passwd", Typeflag: tar.TypeSymlink})...), "link or a device"},
		"HardLink":          {packed(t, shop(tar.Header{Name: "shop/l", Linkname: "shop/Chart.yaml", Typeflag: tar.TypeLink})...), "link or a device"},
		"Device":            {packed(t, shop(tar.Header{Name: "shop/l", Typeflag: tar.TypeChar})...), "link or a device"},
		"Absolute":          {packed(t, shop(file("/etc/passwd", ""))...), "names are relative"},
		"Above":             {packed(t, shop(file("shop/../../x", ""))...), "names are relative"},
		"Above2":            {packed(t, file("../x", "")), "names are relative"},
		"Dot":               {packed(t, shop(file("shop/./x", ""))...), "names are relative"},
		"Backslash":         {packed(t, shop(file(`shop\..\x`, ""))...), "names are relative"},
		"Drive":             {packed(t, shop(file("C:/x", ""))...), "names are relative"},
		"Control":           {packed(t, shop(file("shop/a\nb", ""))...), "names are relative"},
		"Twice":             {packed(t, shop(file("shop/Chart.yaml", ""))...), "twice"},
		"TwiceInOtherWords": {packed(t, shop(file("./shop/Chart.yaml", ""))...), "twice"},
		"FileAndFolder":     {packed(t, shop(file("shop/Chart.yaml/x", ""))...), "as a file and as a folder"},
		"FolderAndFile":     {packed(t, shop(file("shop/x/y", ""), file("shop/x", ""))...), "twice"},
		"TwoFolders":        {packed(t, shop(file("other/x", ""))...), "a chart is one folder"},
		"NoFolder":          {packed(t, file("Chart.yaml", "")), "a chart is one folder"},
	} {
		t.Run(name, func(t *testing.T) {
			if a, err := chart.Read(c.raw); err == nil || !strings.Contains(err.Error(), c.say) {
				t.Errorf("%+v, %v; want %s", a != nil, err, c.say)
			}
		})
	}
}

func TestAnExtensionIsChecked(t *testing.T) { // X16
	for name, c := range map[string]struct{ chart, extension, say string }{
		"NoExtension":  {"name: shop\nversion: 1.0.0", "", "the chart has no extension.yaml"},
		"OtherName":    {"name: shop\nversion: 1.0.0", "name: other\nversion: 1.0.0", "name is"},
		"OtherVersion": {"name: shop\nversion: 1.0.0", "name: shop\nversion: 1.0.1", "version is"},
		"NoName":       {"version: 1.0.0", "version: 1.0.0", "the name"},
		"Dots":         {"name: a.b\nversion: 1.0.0", "name: a.b\nversion: 1.0.0", "the name"},
		"Upper":        {"name: Shop\nversion: 1.0.0", "name: Shop\nversion: 1.0.0", "the name"},
		"LongName":     {"name: " + strings.Repeat("a", 54) + "\nversion: 1.0.0", "name: " + strings.Repeat("a", 54) + "\nversion: 1.0.0", "the name"},
		"LongAgent": {"name: " + strings.Repeat("a", 48) + "\nversion: 1.0.0",
			"name: " + strings.Repeat("a", 48) + "\nversion: 1.0.0\ninstallationMode: Multicluster", "at most 47"},
		"NoVersion": {"name: shop\nversion: latest", "name: shop\nversion: latest", "the version"},
		"Short":     {"name: shop\nversion: '1.0'", "name: shop\nversion: '1.0'", "the version"},
		"Build":     {"name: shop\nversion: 1.0.0+b", "name: shop\nversion: 1.0.0+b", "the version"},
		"Mode":      {"name: shop\nversion: 1.0.0", "name: shop\nversion: 1.0.0\ninstallationMode: Everywhere", "installationMode"},
		"Namespace": {"name: shop\nversion: 1.0.0", "name: shop\nversion: 1.0.0\nnamespace: a/b", "namespace"},
		"Range":     {"name: shop\nversion: 1.0.0", "name: shop\nversion: 1.0.0\nksVersion: newest", "ksVersion"},
		"Needs":     {"name: shop\nversion: 1.0.0", "name: shop\nversion: 1.0.0\nexternalDependencies: [{name: a, version: newest}]", "externalDependencies[0]"},
		"Category":  {"name: shop\nversion: 1.0.0", "name: shop\nversion: 1.0.0\ncategory: a b", "category"},
		"YAML":      {"name: shop\nversion: 1.0.0", "{", "extension.yaml can't be read"},
		"Large":     {"name: shop\nversion: 1.0.0", "#" + strings.Repeat(" ", 1<<20), "more than 1024 KiB"},
	} {
		t.Run(name, func(t *testing.T) {
			entries := []tar.Header{file("c/Chart.yaml", c.chart)}
			if c.extension != "" {
				entries = append(entries, file("c/extension.yaml", c.extension))
			}
			a, err := chart.Read(packed(t, entries...))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := a.Extension(); err == nil || !strings.Contains(err.Error(), c.say) {
				t.Errorf("%v, want %s", err, c.say)
			}
		})
	}
}

func TestPermissionsOfAllDocumentsCount(t *testing.T) {
	read := func(text string) (*chart.Permissions, error) {
		a, err := chart.Read(packed(t, shop(file("shop/permissions.yaml", text))...))
		if err != nil {
			t.Fatal(err)
		}
		return a.Permissions()
	}
	p, err := read("---\n# first\n---\nkind: ClusterRole\nrules: [{apiGroups: [''], resources: [pods], verbs: ['*']}]\n---\nkind: Role\nrules:\n- verbs: [get]\n" +
		"---\nkind: ClusterRole\nrules:\n- verbs: [list]\n")
	if err != nil || len(p.Cluster) != 2 || len(p.Namespace) != 1 || p.Cluster[0].Resources[0] != "pods" {
		t.Errorf("%+v %v", p, err)
	}
	for _, bad := range []string{"kind: Secret", "rules: [{verbs: [get]}]", "kind: [", "kind: ClusterRole\nrules: [" + strings.Repeat("{},", 1025) + "]"} {
		if p, err := read(bad); err == nil {
			t.Errorf("%.40s: %+v", bad, p)
		}
	}
	_, err = read("kind: Role\n---\na: &a [*a]\n")
	if !errors.Is(err, boundedyaml.ErrExpands) || !strings.HasPrefix(err.Error(), "permissions.yaml: document 2: ") {
		t.Errorf("an alias that stands for itself: %v", err)
	}
	if a, _ := chart.Read(packed(t, shop()...)); a != nil {
		if p, err := a.Permissions(); err != nil || p.Cluster != nil || p.Namespace != nil {
			t.Errorf("%+v %v", p, err)
		}
	}
}

func TestRangesOfVersions(t *testing.T) {
	for _, c := range []struct {
		within, version string
		want            bool
	}{
		{"", "anything", true}, {">=1.19.0", "v1.30.1", true}, {">=1.19.0", "v1.30.1-eks-1234", true}, {">=1.19.0-0", "v1.30.0", true}, {">=1.31", "v1.30.9", false},
		{">=4.0.0", "v4.1.3+kapis.dev", true}, {"~4.0.0", "v4.1.3", false}, {"^4.0.0 || ^3.0.0", "4.1.3", true}, {"newest", "4.1.3", false}, {">=1", "", false},
		{">=1" + strings.Repeat(" ", 300), "2.0.0", false},
	} {
		if got := chart.Allows(c.within, c.version); got != c.want {
			t.Errorf("%q allows %q: %v", c.within, c.version, got)
		}
	}
	order := []string{"nonsense", "0.9.0", "1.0.0-alpha.2", "1.0.0-alpha.10", "1.0.0", "1.2.0", "1.10.0", "2.0.0"}
	for i, a := range order {
		for j, b := range order {
			if got := chart.Compare(a, b); got < 0 != (i < j) || got > 0 != (i > j) {
				t.Errorf("%s and %s: %d", a, b, got)
			}
		}
	}
}

func FuzzArchive(f *testing.F) {
	f.Add(packed(f, shop()...))
	f.Add(packed(f, file("a/b", ""), file("a/../b", "")))
	f.Add([]byte("\x1f\x8b"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		a, err := chart.Read(raw)
		if err != nil {
			return
		}
		var size int64
		seen := map[string]bool{}
		for _, f := range a.Files {
			size += int64(len(f.Data))
			if seen[f.Name] || path.Clean("/"+f.Name) != "/"+f.Name || f.Name == "" {
				t.Fatalf("a file has the name %q", f.Name)
			}
			seen[f.Name] = true
			if content, ok := a.File(f.Name); !ok || !bytes.Equal(content, f.Data) {
				t.Fatalf("%q is not found", f.Name)
			}
		}
		if size != a.Size || size > chart.MaxUnpacked || len(a.Files) == 0 {
			t.Fatalf("%d of %d bytes in %d files", size, a.Size, len(a.Files))
		}
		if e, err := a.Extension(); err == nil && (chart.CheckName(e.Name) != nil || chart.CheckVersion(e.Version) != nil) {
			t.Fatalf("%q %q", e.Name, e.Version)
		}
		_, _ = a.Permissions()
	})
}
