package kit_test

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/chart"
	"kapis.dev/ks-apiserver/pkg/extension/kit"
)

// created returns the folder of a new extension.
func created(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "new")
	if _, err := kit.Create(dir, name); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestANewExtensionIsWhole(t *testing.T) {
	for _, name := range []string{"hello", "my-shop-2", "1-x", "greeter", strings.Repeat("n", 53)} {
		t.Run(name, func(t *testing.T) {
			dir := created(t, name)
			a, err := kit.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			raw, r, err := kit.Package(a)
			if err != nil || len(r.Findings) > 0 || r.Name != name || r.Request.Level() != "cluster" {
				t.Fatalf("%v, %+v", err, r)
			}
			if _, err := chart.Read(raw); err != nil {
				t.Error(err)
			}
			if is, err := a.Extension(); err != nil || is.DisplayName["en"] == "" || is.DisplayName["zh"] == "" || a.Icon(is.Icon) == "" {
				t.Errorf("%+v, %v", is, err)
			}
			err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				text, err := os.ReadFile(path)
				if name != "greeter" && bytes.Contains(bytes.ToLower(text), []byte("greeter")) {
					t.Errorf("%s has the name of the sample", path)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func TestTheBackendOfANewExtensionIsAModuleOfItsOwn(t *testing.T) {
	dir := created(t, "1-x")
	cmd := exec.CommandContext(t.Context(), "go", "vet", "./...") // it compiles the tests too
	cmd.Dir, cmd.Env = filepath.Join(dir, "backend"), append(os.Environ(), "GOFLAGS=", "GOWORK=off", "GOPROXY=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// page is a loader of SystemJS that runs one module with the React of a console, and prints what it exports.
const page = `const fs = require('fs'), vm = require('vm');
const React = {createElement: (type, props, ...children) => ({type, props, children})};
const System = {register(needs, declare) {
  const out = {}, module = declare((name, value) => { out[name] = value; });
  module.setters.forEach((set, n) => set({react: {default: React}}[needs[n]]));
  module.execute();
  const is = out.default;
  console.log(JSON.stringify([is.routes[0].path, is.menus[0].name, is.menus[0].authKey, Object.keys(is.locales), is.locales.en[is.menus[0].title]]));
}};
vm.runInNewContext(fs.readFileSync(process.argv[1], 'utf8'), {System});`

func TestThePageOfANewExtensionIsAModuleOfSystemJS(t *testing.T) {
	dir := created(t, "1-x")
	cmd := exec.CommandContext(t.Context(), "node", "-e", page, filepath.Join(dir, "chart", "page", "index.js"))
	out, err := cmd.CombinedOutput()
	if want := `["/1-x","1-x","1-x",["en","zh"],"1 X"]`; err != nil || strings.TrimSpace(string(out)) != want {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestNoFileIsWrittenOver(t *testing.T) {
	dir := t.TempDir()
	mine := filepath.Join(dir, "mine")
	if err := os.WriteFile(mine, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{dir, mine} {
		if _, err := kit.Create(to, "hello"); err == nil {
			t.Errorf("%s is written to", to)
		}
	}
	if has, err := os.ReadDir(dir); err != nil || len(has) != 1 {
		t.Errorf("%v %v", has, err)
	}
	for _, name := range []string{"", "../x", "a/b", "UPPER", "a.b", "-a", `"; rm`, strings.Repeat("n", 54)} {
		to := filepath.Join(dir, "new")
		if _, err := kit.Create(to, name); err == nil {
			t.Errorf("the name %q is taken", name)
		}
		if _, err := os.Stat(to); err == nil {
			t.Errorf("the name %q has left a folder", name)
		}
	}
	empty := t.TempDir()
	if _, err := kit.Create(empty, "hello"); err != nil {
		t.Errorf("an empty folder: %v", err)
	}
}
