package main

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/tools/image/dockerfile"
)

// The Dockerfile makes the images that this program makes, for people who have docker.
func TestTheDockerfileIsOfTheSameImages(t *testing.T) {
	file := filepath.Join("..", "..", "Dockerfile")
	if err := runLint([]string{file}); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	targets, _, err := dockerfile.Check(text)
	if err != nil {
		t.Fatal(err)
	}
	if len(targets) != len(programs) {
		t.Fatalf("the targets are %+v, want one for each program", targets)
	}
	for _, p := range programs {
		at := slices.IndexFunc(targets, func(target dockerfile.Target) bool { return target.Name == p.name })
		if at < 0 {
			t.Errorf("there is no target %s", p.name)
			continue
		}
		var ports []string
		for _, port := range p.ports {
			ports = append(ports, strconv.Itoa(port))
		}
		got := targets[at]
		if got.User != "65532:65532" || !slices.Equal(got.Entrypoint, []string{"/" + p.name}) || !slices.Equal(got.Ports, ports) {
			t.Errorf("the target is %+v, want the user, the entrypoint and the ports of %+v", got, p)
		}
	}
}

func TestADockerfileWithProblemsIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "Dockerfile")
	if err := os.WriteFile(file, []byte("FROM golang\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := runLint([]string{file})
	if err == nil || !strings.Contains(err.Error(), file+": line 1: ") {
		t.Errorf("got %v", err)
	}
	for _, files := range [][]string{nil, {file + ".missing"}} {
		if err := runLint(files); err == nil {
			t.Errorf("%q is no error", files)
		}
	}
}
