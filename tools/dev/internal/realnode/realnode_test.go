package realnode

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func testConfig(t *testing.T) Config {
	t.Helper()
	dir := t.TempDir()
	return Config{Index: 3, Dir: filepath.Join(dir, "node"), Logs: dir, APIServerPort: 6443}
}

func TestTheNodeListensOnItsBridgeAndOnLoopback(t *testing.T) {
	c := testConfig(t)
	if err := c.writeFiles(); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"kubelet.yaml", "kube-proxy.yaml", "containerd.toml"} {
		data, err := os.ReadFile(c.path(file))
		if err != nil {
			t.Fatal(err)
		}
		told := false
		for line := range strings.Lines(string(data)) {
			key, value, _ := strings.Cut(strings.NewReplacer("=", ":", `"`, "", " ", "").Replace(strings.TrimSpace(line)), ":")
			if !strings.HasSuffix(strings.ToLower(key), "address") || value == c.socket() {
				continue
			}
			told = true
			if !strings.HasPrefix(value, "127.0.0.1") && value != c.NodeIP() {
				t.Errorf("%s: %s", file, line)
			}
		}
		if !told {
			t.Errorf("%s chooses where it listens itself", file)
		}
	}
}

func TestVersionOneOfCgroupsIsNoReasonToStop(t *testing.T) {
	c := testConfig(t)
	if err := c.writeFiles(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(c.path("kubelet.yaml"))
	if err != nil || !strings.Contains(string(data), "\nfailCgroupV1: false\n") {
		t.Errorf("%s, %v", data, err)
	}
}

func TestAFullMachineEndsNoPod(t *testing.T) {
	c := testConfig(t)
	if err := c.writeFiles(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(c.path("kubelet.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), "\nevictionHard:\n")
	var signals []string
	for line := range strings.Lines(rest) {
		signal, threshold, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if !strings.HasPrefix(line, "  ") {
			break
		}
		if threshold != "0%" {
			t.Errorf("pods end where %s is below %s", signal, threshold)
		}
		signals = append(signals, signal)
	}
	// Without a threshold of its own, a signal has the kubelet's.
	for _, want := range []string{"memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree"} {
		if !slices.Contains(signals, want) {
			t.Errorf("%s is left to the kubelet", want)
		}
	}
}

func TestImageArchive(t *testing.T) {
	i := image{name: BusyboxImage, command: []string{"sh"}, files: busyboxFiles([]byte("program"), []string{"busybox", "sh", "sbin/ip"})}
	data, err := i.archive()
	if err != nil {
		t.Fatal(err)
	}
	files := untar(t, data)
	t.Run("EveryBlobHasTheNameOfItsContent", func(t *testing.T) {
		blobs := 0
		for name, content := range files {
			if digest, ok := strings.CutPrefix(name, "blobs/sha256/"); ok && digest != "" {
				sum := sha256.Sum256([]byte(content))
				blobs++
				if hex.EncodeToString(sum[:]) != digest {
					t.Errorf("%s holds something else", name)
				}
			}
		}
		if blobs != 3 {
			t.Errorf("%d blobs, want layer, configuration and manifest", blobs)
		}
	})
	t.Run("TheIndexNamesTheImage", func(t *testing.T) {
		var index struct{ Manifests []descriptor }
		if err := json.Unmarshal([]byte(files["index.json"]), &index); err != nil {
			t.Fatal(err)
		}
		if len(index.Manifests) != 1 || index.Manifests[0].Annotations["io.containerd.image.name"] != BusyboxImage {
			t.Errorf("%+v", index)
		}
	})
	t.Run("AppletsAreLinks", func(t *testing.T) {
		layer, err := tarOf(i.files)
		if err != nil {
			t.Fatal(err)
		}
		inside := untar(t, layer)
		for _, name := range []string{"bin/sh", "bin/ip"} {
			if inside[name] != "-> busybox" {
				t.Errorf("%s is %q", name, inside[name])
			}
		}
		if inside["bin/busybox"] != "program" {
			t.Errorf("the program is %q", inside["bin/busybox"])
		}
	})
	t.Run("EqualContentIsAnEqualFile", func(t *testing.T) {
		if again, err := i.archive(); err != nil || !bytes.Equal(again, data) {
			t.Errorf("another file, %v", err)
		}
	})
}

func untar(t *testing.T, data []byte) map[string]string {
	t.Helper()
	files := map[string]string{}
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if h.Linkname != "" {
			content = []byte("-> " + h.Linkname)
		}
		files[h.Name] = string(content)
	}
}

func TestAClaimIsForOneAtATime(t *testing.T) {
	const index = 200 // beyond those that nodes use
	first, err := claim(index)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := claim(index); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("the second got %v", err)
	}
	first.Release()
	again, err := claim(index)
	if err != nil {
		t.Fatal(err)
	}
	again.Release()
}

func TestCleanOfNothing(t *testing.T) {
	if err := Clean(t.Context(), filepath.Join(t.TempDir(), "none"), None); err != nil {
		t.Error(err)
	}
}

func TestCleanRemovesAFolderWithoutState(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "node")
	if err := os.MkdirAll(filepath.Join(dir, "containerd"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Clean(t.Context(), dir, None); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is there: %v", err)
	}
}

func TestCleanLeavesWhatAnotherControlPlaneUses(t *testing.T) {
	const index = 201
	held, err := claim(index)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Release()
	dir := filepath.Join(t.TempDir(), "node")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := writeState(dir, state{Index: index}); err != nil {
		t.Fatal(err)
	}
	// As another process: it may not touch what has this number, but the folder is its own.
	if err := Clean(t.Context(), dir, None); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its folder is there: %v", err)
	}
}

func TestCheckSaysWhatToDoInOneLine(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	missing := missingPackages()
	for _, name := range []string{"containerd", "runc", "busybox-static"} {
		if !slices.Contains(missing, name) {
			t.Errorf("%s is not among the missing packages %v", name, missing)
		}
	}
	if err := Check(t.Context()); err != nil && strings.Contains(err.Error(), "\n") {
		t.Errorf("more than a line: %v", err)
	}
}

func TestAConfigurationIsReadBack(t *testing.T) {
	c := testConfig(t)
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "c.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if again, err := ReadConfig(file); err != nil || again != c {
		t.Errorf("%+v, %v", again, err)
	}
	if c.Server() != "https://10.245.3.2:6443" || c.NodeIP() != "10.245.3.1" {
		t.Errorf("%s, %s", c.Server(), c.NodeIP())
	}
}
