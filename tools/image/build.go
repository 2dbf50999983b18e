package main

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// program is a program that gets an image.
type program struct {
	name, description string
	ports             []int
}

// programs are those that run in a cluster. Each is built from cmd/ and its name.
var programs = []program{
	{"ks-apiserver", "API server for teams that share Kubernetes clusters", []int{9090, 9443}},
	{"ks-controller-manager", "Controllers and webhooks for the users, roles and workspaces of ks-apiserver", []int{8080, 8081, 8443}},
}

// Build builds the images of the programs.
type Build struct {
	Root          string   // folder of the module
	Out           string   // folder that the images are written to
	Platforms     []string // as linux/amd64; the archive for docker load is of the first one
	Registry, Tag string   // names the images
	// The values of labels, apart from the programs' own names.
	Version, Revision, Source string
	Created                   time.Time
	LinkerFlags               string
	// Describe writes which modules are linked into a program of a version, to a folder. Nil skips this.
	Describe func(ctx context.Context, root, folder, version, program string) error
	Log      io.Writer
}

// Run builds every program for every platform, writes the images, and returns their digests: that of the image if there is one platform,
// else that of the index of all.
func (b Build) Run(ctx context.Context) ([]Digest, error) {
	platforms, err := b.platforms()
	if err != nil {
		return nil, err
	}
	for _, p := range programs {
		if _, err := b.reference(p); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(b.Out, 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of the images: %w", err)
	}
	work, err := os.MkdirTemp(b.Out, ".build-") // next to the results, so that they can be renamed
	if err != nil {
		return nil, fmt.Errorf("make a folder for the programs: %w", err)
	}
	defer os.RemoveAll(work) //nolint:errcheck // what is left hurts nobody

	for _, platform := range platforms {
		fmt.Fprintf(b.Log, "building the programs for %s (some minutes the first time)\n", platform)
		if err := b.compile(ctx, platform, binaries(work, platform)); err != nil {
			return nil, err
		}
	}
	return b.assembleAll(ctx, work, platforms)
}

// assembleAll writes the images of the programs that were compiled into the folder work.
func (b Build) assembleAll(ctx context.Context, work string, platforms []v1.Platform) ([]Digest, error) {
	digests := make([]Digest, 0, len(programs))
	for _, p := range programs {
		digest, err := b.assemble(ctx, work, p, platforms)
		if err != nil {
			return nil, fmt.Errorf("build the image of %s: %w", p.name, err)
		}
		digests = append(digests, Digest{p.name, digest.String()})
	}
	return digests, nil
}

// platforms returns the platforms to build for, parsed.
func (b Build) platforms() ([]v1.Platform, error) {
	var parsed []v1.Platform
	for _, text := range b.Platforms {
		p, err := v1.ParsePlatform(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("platform %q: %w", text, err)
		}
		if p.OS != "linux" || p.Architecture == "" || p.Variant != "" {
			return nil, fmt.Errorf("platform %q: want linux/ and an architecture, as linux/arm64", text)
		}
		if slices.ContainsFunc(parsed, p.Equals) {
			return nil, fmt.Errorf("platform %q is named twice", text)
		}
		parsed = append(parsed, *p)
	}
	return parsed, nil
}

// reference returns the name of a program's image.
func (b Build) reference(p program) (name.Tag, error) {
	ref, err := name.NewTag(b.Registry + "/" + p.name + ":" + b.Tag)
	if err != nil {
		return name.Tag{}, fmt.Errorf("name the image of %s: %w", p.name, err)
	}
	return ref, nil
}

// binaries returns the folder of the programs for a platform.
func binaries(work string, platform v1.Platform) string {
	return filepath.Join(work, platform.OS+"-"+platform.Architecture)
}

// compile builds the programs for a platform into a folder.
func (b Build) compile(ctx context.Context, platform v1.Platform, folder string) error {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return fmt.Errorf("find the folder of the programs: %w", err)
	}
	args := []string{"build", "-trimpath", "-o", folder + string(filepath.Separator), "-ldflags", b.LinkerFlags}
	for _, p := range programs {
		args = append(args, "./cmd/"+p.name)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = b.Root, b.Log, b.Log
	// Settings that could differ between users, and would change the program, are fixed.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+platform.OS, "GOARCH="+platform.Architecture, "GOFLAGS=-buildvcs=false",
		"GOAMD64=v1", "GOARM64=v8.0", "GOFIPS140=off", "GOWORK=off")
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build the programs for %s: %w", platform, err)
	}
	for _, p := range programs {
		if err := checkStatic(filepath.Join(folder, p.name)); err != nil {
			return err
		}
	}
	return nil
}

// checkStatic returns an error for a program that needs a dynamic linker, which no image has.
func checkStatic(file string) error {
	f, err := elf.Open(file)
	if err != nil {
		return fmt.Errorf("read a program: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	for _, segment := range f.Progs {
		if segment.Type == elf.PT_INTERP {
			return errors.New(filepath.Base(file) + " is dynamically linked, and could not run in an image that has nothing else")
		}
	}
	return nil
}

// writeSBOM writes the CycloneDX document of a program with tools/sbom.
func writeSBOM(ctx context.Context, root, folder, version, program string) error {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return fmt.Errorf("find the folder of the images: %w", err)
	}
	program, err = filepath.Abs(program)
	if err != nil {
		return fmt.Errorf("find a program: %w", err)
	}
	cmd := exec.CommandContext(ctx, "go", "run", "./tools/sbom", "--out", folder, "--version", version, program)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("describe what is linked: %w", err)
	}
	return nil
}
