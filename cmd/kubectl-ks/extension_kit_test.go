package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/extension/kit"
)

func TestAnExtensionIsBegunCheckedAndPacked(t *testing.T) {
	d := newDesk(t)
	dir := filepath.Join(t.TempDir(), "hello")
	if out := d.must("extension", "create", "hello", "--dir", dir); !strings.Contains(out, "kubectl ks extension lint "+dir) {
		t.Errorf("create says %q", out)
	}
	if _, err := d.run("extension", "create", "hello", "--dir", dir); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("a folder is written over: %v", err)
	}
	if out := d.must("extension", "lint", dir); !strings.HasPrefix(out, "hello 0.1.0 asks for (level: cluster)\n") {
		t.Errorf("lint says %q", out)
	}
	var packages [2][]byte
	for i, to := range []string{filepath.Join(t.TempDir(), "a.tgz"), t.TempDir()} {
		out := d.must("extension", "package", dir, "-o", to)
		name, _, _ := strings.Cut(out, " ")
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		packages[i] = raw
		if out := d.must("extension", "lint", name); !strings.HasPrefix(out, "hello 0.1.0 asks for") {
			t.Errorf("lint says of the package %q", out)
		}
	}
	if !bytes.Equal(packages[0], packages[1]) {
		t.Error("the same extension makes two packages")
	}
	if err := os.WriteFile(filepath.Join(dir, "chart", "permissions.yaml"), []byte("kind: \x1b[2JSecret"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := d.run("extension", "lint", dir)
	if err == nil || !strings.Contains(out, "error    permissions.yaml: ") || strings.Contains(out, "\x1b") {
		t.Errorf("lint says %q, %v", out, err)
	}
	to := filepath.Join(t.TempDir(), "refused.tgz")
	for _, args := range [][]string{{"package", dir, "-o", to}, {"push", dir}} {
		if out, err := d.run(append([]string{"extension"}, args...)...); err == nil || !strings.Contains(out, "error    permissions.yaml: ") {
			t.Errorf("%v: %q, %v", args, out, err)
		}
	}
	if _, err := os.Stat(to); err == nil {
		t.Error("a chart that is refused is packed")
	}
}

func TestATrialNeedsToKnowWhatItIsOf(t *testing.T) {
	d := newDesk(t)
	for _, c := range []struct {
		args []string
		say  string
	}{
		{[]string{t.TempDir()}, "--name"},
		{[]string{"--name", "hello", "--api", "a/b/c", "--backend", "http://10.0.0.1"}, "GROUP/VERSION"},
		{[]string{"--name", "hello", "--context", "none", "--backend", "http://10.0.0.1"}, "kubeconfig"},
	} {
		if _, err := d.run(append([]string{"extension", "run"}, c.args...)...); err == nil || !strings.Contains(err.Error(), c.say) {
			t.Errorf("%v: %v", c.args, err)
		}
	}
}

func TestWhatAServerSaysCommandsNoTerminal(t *testing.T) {
	var out bytes.Buffer
	if n, err := (plainLines{&out}).Write([]byte("a\x1b[2Jb\nc\n")); err != nil || n != 9 || strings.Contains(out.String(), "\x1b") ||
		!strings.HasSuffix(out.String(), "b\nc\n") {
		t.Errorf("%d %v %q", n, err, out.String())
	}
}

func TestTheDocumentationShowsWhatTheCommandsSay(t *testing.T) {
	text, err := os.ReadFile("../../docs/writing-extensions.md")
	if err != nil {
		t.Fatal(err)
	}
	d := newDesk(t)
	t.Chdir(t.TempDir())
	for _, command := range []string{"create hello", "lint hello"} {
		shown := "$ kubectl ks extension " + command + "\n" + d.must(append([]string{"extension"}, strings.Fields(command)...)...)
		if !strings.Contains(string(text), shown) {
			t.Errorf("it does not show:\n%s", shown)
		}
	}
	for _, shown := range []string{kit.InstallCommand("hello", "0.1.0"), kit.RemoveCommand("hello")} {
		if !strings.Contains(string(text), shown) {
			t.Errorf("it does not show:\n%s", shown)
		}
	}
	root, _, err := d.command().Find([]string{"extension"})
	if err != nil {
		t.Fatal(err)
	}
	for _, cmd := range root.Commands() {
		if !strings.Contains(string(text), "| `"+cmd.Name()+" ") {
			t.Errorf("it does not have the command %s", cmd.Name())
		}
	}
}
