package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// sources makes a module with programs of the names of ours, which say what the linker told them.
func sources(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	files := map[string]string{"go.mod": "module example.com/programs\n\ngo 1.26.0\n"}
	for _, p := range programs {
		files["cmd/"+p.name+"/main.go"] = "package main\n\nvar version string\n\nfunc main() { println(version) }\n"
	}
	for name, text := range files {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// build returns a build of small programs into an empty folder.
func build(t *testing.T, platforms ...string) Build {
	t.Helper()
	return Build{Root: sources(t), Out: filepath.Join(t.TempDir(), "images"), Platforms: platforms, Registry: "kapis", Tag: "v1", Version: "v1",
		Revision: "0123456789abcdef", Source: "https://example.com/source", Created: time.Date(2026, 7, 1, 2, 3, 4, 0, time.UTC),
		LinkerFlags: "-s -w -X main.version=v1", Log: t.Output(),
		Describe: func(_ context.Context, _, folder, version, program string) error {
			return os.WriteFile(filepath.Join(folder, filepath.Base(program)+".cdx.json"), []byte(version), 0o600)
		}}
}

// must runs a build.
func must(t *testing.T, b Build) []Digest {
	t.Helper()
	digests, err := b.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return digests
}

// assembled does what a build does once its programs are compiled, with files in their place: compiling takes most of the time.
func assembled(t *testing.T, b Build) []Digest {
	t.Helper()
	platforms, err := b.platforms()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(b.Out, 0o755); err != nil {
		t.Fatal(err)
	}
	work, err := os.MkdirTemp(b.Out, ".build-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(work)
	for _, platform := range platforms {
		if err := os.MkdirAll(binaries(work, platform), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, p := range programs {
			text := []byte("the program " + p.name + " for " + platform.String())
			if err := os.WriteFile(filepath.Join(binaries(work, platform), p.name), text, 0o700); err != nil {
				t.Fatal(err)
			}
		}
	}
	digests, err := b.assembleAll(t.Context(), work, platforms)
	if err != nil {
		t.Fatal(err)
	}
	return digests
}

// contents returns the names and the contents of all files below a folder.
func contents(t *testing.T, folder string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		found[strings.TrimPrefix(path, folder)] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Nothing of the folder, of the day or of the user's settings is in an image.
func TestTwoBuildsHaveOneDigest(t *testing.T) {
	first := build(t, "linux/"+runtime.GOARCH)
	digests := must(t, first)
	second := build(t, "linux/"+runtime.GOARCH)
	t.Setenv("GOAMD64", "v3")
	t.Setenv("GOFLAGS", "-tags=other")
	t.Setenv("CGO_ENABLED", "1")
	if again := must(t, second); !slices.Equal(digests, again) {
		t.Errorf("the digests of two builds are %v and %v", digests, again)
	}
	one, two := contents(t, first.Out), contents(t, second.Out)
	for name, content := range one {
		if two[name] != content {
			t.Errorf("%s differs", name)
		}
		delete(two, name)
	}
	for name := range two {
		t.Errorf("the second build has %s, too", name)
	}
	for _, p := range programs {
		img, _ := only(t, filepath.Join(first.Out, p.name))
		file := filepath.Join(t.TempDir(), p.name)
		if err := os.WriteFile(file, []byte(unpack(t, img)[p.name].content), 0o700); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), file).CombinedOutput()
		if err != nil || string(out) != "v1\n" {
			t.Errorf("%s says %q, %v", p.name, out, err)
		}
	}
}

// The folder holds an OCI layout, an archive for docker load and an SBOM for each program, and nothing of the build.
func TestWhatABuildLeaves(t *testing.T) {
	b := build(t, "linux/amd64")
	assembled(t, b)
	assembled(t, b) // over what is there
	entries, err := os.ReadDir(b.Out)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	want := []string{"ks-apiserver", "ks-apiserver.cdx.json", "ks-apiserver.tar", "ks-controller-manager", "ks-controller-manager.cdx.json",
		"ks-controller-manager.tar"}
	if !slices.Equal(names, want) {
		t.Errorf("the folder has %q, want %q", names, want)
	}
	if got, err := os.ReadFile(filepath.Join(b.Out, "ks-apiserver.cdx.json")); err != nil || string(got) != b.Version {
		t.Errorf("the SBOM is %q, %v; want that of the program and its version", got, err)
	}
}

// Registries and nodes keep the layer of the certificates once for all images and versions.
func TestTheLayersOfTheImages(t *testing.T) {
	b := build(t, "linux/amd64")
	digests := assembled(t, b)
	shared := map[v1.Hash]bool{}
	for i, p := range programs {
		img, manifest := only(t, filepath.Join(b.Out, p.name))
		if err := validate.Image(img); err != nil {
			t.Errorf("%s: %v", p.name, err)
		}
		if digest := manifest.Manifests[0].Digest.String(); digest != digests[i].Digest || digests[i].Name != p.name {
			t.Errorf("printed is %v, and the layout has %s of %s", digests[i], digest, p.name)
		}
		loaded, err := tarball.ImageFromPath(filepath.Join(b.Out, p.name+".tar"), nil)
		if err != nil {
			t.Fatal(err)
		}
		same(t, p.name+".tar", img, loaded)
		layers, err := img.Layers()
		if err != nil || len(layers) != 2 {
			t.Fatalf("%s has %d layers, %v", p.name, len(layers), err)
		}
		digest, err := layers[0].Digest()
		if err != nil {
			t.Fatal(err)
		}
		shared[digest] = true
	}
	if len(shared) != 1 {
		t.Errorf("the images have %d layers of certificates, want one", len(shared))
	}
}

// only returns the one image of a layout.
func only(t *testing.T, folder string) (v1.Image, *v1.IndexManifest) {
	t.Helper()
	index, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("the layout has %d manifests, %v", len(manifest.Manifests), err)
	}
	img, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return img, manifest
}

// same reports images of other configurations as an error. Archives for docker load keep no manifest.
func same(t *testing.T, what string, a, b v1.Image) {
	t.Helper()
	x, err := a.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	y, err := b.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	if x != y {
		t.Errorf("%s is of another image", what)
	}
}

// A pod may demand a user that is not root and a root folder that is read-only, and the program still reaches servers by TLS.
func TestAnImageHasAProgramAUserAndAuthorities(t *testing.T) {
	b := build(t, "linux/arm64")
	assembled(t, b)
	for _, p := range programs {
		img, _ := only(t, filepath.Join(b.Out, p.name))
		config, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		c := config.Config
		if c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/" + p.name}) || len(c.ExposedPorts) != len(p.ports) ||
			config.Architecture != "arm64" || config.OS != "linux" || !config.Created.Equal(b.Created) {
			t.Errorf("%s: %+v", p.name, config)
		}
		manifest, err := img.Manifest()
		if err != nil {
			t.Fatal(err)
		}
		for key, want := range map[string]string{"title": p.name, "version": "v1", "revision": "0123456789abcdef", "licenses": "Apache-2.0",
			"source": "https://example.com/source", "created": "2026-07-01T02:03:04Z", "description": p.description} {
			key = "org.opencontainers.image." + key
			if c.Labels[key] != want || manifest.Annotations[key] != want {
				t.Errorf("%s: %s is %q and %q, want %q", p.name, key, c.Labels[key], manifest.Annotations[key], want)
			}
		}
		files := unpack(t, img)
		if got := files["etc/passwd"]; got.content != "nonroot:x:65532:65532::/:/sbin/nologin\n" || got.mode != 0o644 {
			t.Errorf("%s: the user is %+v", p.name, got)
		}
		if got := files[p.name]; got.mode != 0o755 || got.content != "the program "+p.name+" for linux/arm64" {
			t.Errorf("%s: the program is %+v", p.name, got)
		}
		if want := 7; len(files) != want {
			t.Errorf("%s has %d files and folders, want %d", p.name, len(files), want)
		}
		roots, rest := 0, []byte(files["etc/ssl/certs/ca-certificates.crt"].content)
		for block, after := pem.Decode(rest); block != nil; block, after = pem.Decode(after) {
			if _, err := x509.ParseCertificate(block.Bytes); err != nil {
				t.Errorf("%s: %v", p.name, err)
			}
			roots++
		}
		trusted, constrained := 0, 0
		for root := range bundle.Roots() {
			if root.Constraint == nil {
				trusted++
			} else {
				constrained++
			}
		}
		if roots != trusted || roots < 100 || constrained > 10 {
			t.Errorf("%s trusts %d authorities, want %d; %d are left out", p.name, roots, trusted, constrained)
		}
	}
}

// unpacked is a file of an image.
type unpacked struct {
	mode    int64
	content string
}

// unpack returns the files and folders of an image, all of which have to be root's.
func unpack(t *testing.T, img v1.Image) map[string]unpacked {
	t.Helper()
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]unpacked{}
	for _, l := range layers {
		r, err := l.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		archive := tar.NewReader(r)
		for {
			header, err := archive.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			content, err := io.ReadAll(archive)
			if err != nil {
				t.Fatal(err)
			}
			if header.Uid != 0 || header.Gid != 0 || header.Mode&0o022 != 0 {
				t.Errorf("%s belongs to %d:%d and has the mode %o", header.Name, header.Uid, header.Gid, header.Mode)
			}
			files[header.Name] = unpacked{header.Mode, string(content)}
		}
		r.Close()
	}
	return files
}

// docker load names the image as the user did.
func TestTheNameOfAnArchive(t *testing.T) {
	b := build(t, "linux/amd64")
	b.Registry, b.Tag = "registry.example.com:5000/team", "v1.2-dirty"
	assembled(t, b)
	manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(filepath.Join(b.Out, "ks-apiserver.tar")) })
	if err != nil {
		t.Fatal(err)
	}
	if got, want := manifest[0].RepoTags, []string{"registry.example.com:5000/team/ks-apiserver:v1.2-dirty"}; !slices.Equal(got, want) {
		t.Errorf("the archive is named %q, want %q", got, want)
	}
}

func TestABuildOfSeveralPlatformsIsAnIndex(t *testing.T) {
	b := build(t, "linux/amd64", "linux/arm64")
	digests := assembled(t, b)
	index, err := layout.ImageIndexFromPath(filepath.Join(b.Out, "ks-apiserver"))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	outer, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(outer.Manifests) != 1 || outer.Manifests[0].Digest.String() != digests[0].Digest {
		t.Fatalf("the layout has %+v, and printed is %v", outer.Manifests, digests[0])
	}
	inner, err := index.ImageIndex(outer.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := inner.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, m := range manifest.Manifests {
		platforms = append(platforms, m.Platform.String())
	}
	if !slices.Equal(platforms, b.Platforms) {
		t.Errorf("the index has %q, want %q", platforms, b.Platforms)
	}
	// The program's version is in the labels, too.
	other := build(t, "linux/amd64", "linux/arm64")
	other.Version = "v2"
	if changed := assembled(t, other); changed[0].Digest == digests[0].Digest {
		t.Error("another version has the same digest")
	}
	// One platform alone has the digest that it has in the index.
	alone := build(t, "linux/amd64")
	if digest := assembled(t, alone)[0].Digest; digest != manifest.Manifests[0].Digest.String() {
		t.Errorf("linux/amd64 alone is %s, and %s in the index", digest, manifest.Manifests[0].Digest)
	}
	for _, file := range []string{"ks-apiserver-linux-arm64.tar", "ks-apiserver-linux-arm64.cdx.json"} {
		if _, err := os.Stat(filepath.Join(b.Out, file)); err != nil {
			t.Error(err)
		}
	}
}

func TestABuildThatCantBeIsAnError(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Build)
		want   string
	}{
		"another system":   {func(b *Build) { b.Platforms = []string{"windows/amd64"} }, `platform "windows/amd64": want linux/`},
		"a variant":        {func(b *Build) { b.Platforms = []string{"linux/arm/v7"} }, "want linux/"},
		"no architecture":  {func(b *Build) { b.Platforms = []string{""} }, "want linux/"},
		"a platform twice": {func(b *Build) { b.Platforms = []string{"linux/amd64", "linux/amd64"} }, "is named twice"},
		"a tag":            {func(b *Build) { b.Tag = "v1+2" }, "name the image of ks-apiserver"},
		"no program":       {func(b *Build) { _ = os.RemoveAll(filepath.Join(b.Root, "cmd")) }, "build the programs for linux/amd64"},
		"no SBOM": {func(b *Build) {
			b.Describe = func(context.Context, string, string, string, string) error {
				return errors.New("a licence is not allowed")
			}
		}, "a licence is not allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			b := build(t, "linux/amd64")
			c.change(&b)
			_, err := b.Run(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
			left, _ := filepath.Glob(filepath.Join(b.Out, ".build-*"))
			if len(left) != 0 {
				t.Errorf("left are %q", left)
			}
		})
	}
}

// A licence that is not allowed ends the build before there is an image.
func TestABuildWithoutAnSBOMIsAnError(t *testing.T) {
	b := build(t, "linux/amd64")
	b.Describe = func(context.Context, string, string, string, string) error {
		return errors.New("a licence is not allowed")
	}
	if err := os.MkdirAll(b.Out, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := b.describe(t.Context(), programs[0], b.Out, ""); err == nil || !strings.Contains(err.Error(), "a licence is not allowed") {
		t.Errorf("got %v", err)
	}
}

func TestAProgramThatNeedsAnInterpreterIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "dynamic")
	// The header of an ELF file for 64 bits, and one segment that names an interpreter.
	image := make([]byte, 64+56)
	copy(image, "\x7fELF\x02\x01\x01")
	image[16], image[18], image[20] = 2, 62, 1 // executable, amd64, version
	image[32], image[52] = 64, 64              // where the segments are, the size of the header
	image[54], image[56] = 56, 1               // the size and the number of segments
	image[64] = 3                              // an interpreter
	if err := os.WriteFile(file, image, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := checkStatic(file); err == nil || !strings.Contains(err.Error(), "dynamic is dynamically linked") {
		t.Errorf("got %v", err)
	}
}

// The layout names the tag where containerd and others look for it.
func TestTheLayoutNamesTheTag(t *testing.T) {
	b := build(t, "linux/amd64")
	assembled(t, b)
	_, manifest := only(t, filepath.Join(b.Out, "ks-controller-manager"))
	got, err := json.Marshal(manifest.Manifests[0].Annotations)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"io.containerd.image.name":"index.docker.io/kapis/ks-controller-manager:v1","org.opencontainers.image.ref.name":"v1"}`
	if !bytes.Equal(got, []byte(want)) {
		t.Errorf("got %s, want %s", got, want)
	}
	if platform := manifest.Manifests[0].Platform; fmt.Sprint(platform) != "linux/amd64" {
		t.Errorf("the platform is %v", platform)
	}
}
