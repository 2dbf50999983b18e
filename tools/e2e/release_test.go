package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// release is one version of the product.
type release struct {
	name string
	bin  string // the folder of its programs
	root string // its sources, with config and hack
	// configuration is its kubesphere.yaml, without the issuer: a program refuses a key that it does not know, so each version has its own.
	configuration string
}

// thisRelease is what the tests of this package run.
func thisRelease(t *testing.T) release {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return release{name: "this", bin: filepath.Dir(product.Program("ks-apiserver")), root: root,
		configuration: "multicluster: {clusterRole: host, hostClusterName: host}\nresources: {cacheMemory: 1Gi}\n"}
}

// previousRelease builds the version from which installations come, and to which they go back. Its commit is in testdata/previous: whoever
// makes a release writes the commit of the release there in the first commit after it, and what that version can't do yet goes from
// docs/upgrade.md and from the tests of the way back. It is built with the modules of this version: others would be compiled for it alone.
func previousRelease(t *testing.T) release {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "previous"))
	if err != nil {
		t.Fatal(err)
	}
	commit, root := strings.TrimSpace(string(raw)), t.TempDir()
	in := func(dir, name string, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = dir
		return cmd
	}
	if out, err := in(".", "git", "cat-file", "-e", commit+"^{commit}").CombinedOutput(); err != nil {
		t.Fatalf("the previous version, commit %s of testdata/previous, is not in this clone: fetch the history, as with `git fetch --unshallow` (%v)\n%s",
			commit, err, out)
	}
	archive := filepath.Join(root, "previous.tar")
	modules, err := filepath.Abs(filepath.Join("..", "..", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for _, cmd := range []*exec.Cmd{
		in(filepath.Join("..", ".."), "git", "archive", "--output", archive, commit, "Makefile", "cmd", "config", "go.mod", "go.sum", "hack", "pkg"),
		in(root, "tar", "-xf", archive),
		in(root, "go", "build", "-modfile", modules, "-buildvcs=false", "-trimpath", "-o", filepath.Join(root, "bin")+string(filepath.Separator),
			"./cmd/ks-apiserver", "./cmd/ks-controller-manager"),
	} {
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, out)
		}
	}
	return release{name: "previous", bin: filepath.Join(root, "bin"), root: root,
		configuration: "multicluster: {clusterRole: host, hostClusterName: host}\n"}
}

func (r release) program(name string) string { return filepath.Join(r.bin, name) }

// make runs targets of the version's Makefile on the cluster of kubeconfig, as docs/upgrade.md says.
func (r release) make(t *testing.T, kubeconfig string, targets ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "make", append([]string{"--no-print-directory"}, targets...)...)
	cmd.Dir = r.root
	// Nothing of the make that runs the tests.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "MAKE") || strings.HasPrefix(e, "MFLAGS") })
	cmd.Env = append(cmd.Env, "KUBECTL="+product.Program("kubectl"), "KUBECONFIG="+kubeconfig)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make %s of the %s version: %v\n%s", strings.Join(targets, " "), r.name, err, out)
	}
}
