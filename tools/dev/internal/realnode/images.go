package realnode

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"kapis.dev/ks-apiserver/tools/dev/internal/pki"
)

// pauseProgram is the program of the pause image, next to this one.
const pauseProgram = "pause"

func (c Config) imageFile(name string) string {
	return c.path("images", strings.NewReplacer("/", "_", ":", "_").Replace(name)+".tar")
}

// writeImages writes the images that the node has from the start, as tar files in the layout of OCI images.
func (c Config) writeImages() error {
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	pause, err := os.ReadFile(filepath.Join(filepath.Dir(exe), pauseProgram))
	if err != nil {
		return fmt.Errorf("read the program of the pause image: %w", err)
	}
	found, err := exec.LookPath("busybox")
	if err != nil {
		return fmt.Errorf("find busybox: %w", err)
	}
	busybox, err := os.ReadFile(found)
	if err != nil {
		return fmt.Errorf("read busybox: %w", err)
	}
	applets, err := exec.Command(found, "--list").Output() //nolint:noctx // prints a list and ends
	if err != nil {
		return fmt.Errorf("list what busybox can do: %w", err)
	}
	for name, i := range map[string]image{
		pauseImage: {
			name: pauseImage, entrypoint: []string{"/pause"},
			files: []imageFile{{name: "pause", mode: 0o755, data: pause}},
		},
		BusyboxImage: {
			name: BusyboxImage, entrypoint: nil, command: []string{"sh"},
			files: busyboxFiles(busybox, strings.Fields(string(applets))),
		},
	} {
		data, err := i.archive()
		if err != nil {
			return fmt.Errorf("make the image %s: %w", name, err)
		}
		if err := pki.WriteFile(c.imageFile(name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func busyboxFiles(program []byte, applets []string) []imageFile {
	files := []imageFile{
		{name: "bin/", mode: 0o755}, {name: "etc/", mode: 0o755}, {name: "root/", mode: 0o700}, {name: "tmp/", mode: 0o1777},
		{name: "var/", mode: 0o755}, {name: "usr/", mode: 0o755}, {name: "usr/bin/", mode: 0o755}, {name: "home/", mode: 0o755},
		{name: "bin/busybox", mode: 0o755, data: program},
		{name: "etc/passwd", mode: 0o644, data: []byte("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/home:/bin/false\n")},
		{name: "etc/group", mode: 0o644, data: []byte("root:x:0:\nnogroup:x:65534:\n")},
		{name: "usr/bin/env", mode: 0o777, link: "/bin/busybox"},
	}
	for _, applet := range applets {
		if applet != "busybox" {
			files = append(files, imageFile{name: path.Join("bin", path.Base(applet)), mode: 0o777, link: "busybox"})
		}
	}
	return files
}

// imageFile is a file of an image: a folder where the name ends in a slash, a symbolic link where link is set.
type imageFile struct {
	name string
	mode int64
	data []byte
	link string
}

// image is a container image of one layer.
type image struct {
	name                string
	entrypoint, command []string
	files               []imageFile
}

// imageTime is the time of everything in an image, so that equal content has an equal digest.
var imageTime = time.Unix(0, 0).UTC()

// descriptor names a blob (OCI image specification).
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// archive returns the image as a tar file in OCI layout, which containerd imports.
func (i image) archive() ([]byte, error) {
	layer, err := tarOf(i.files)
	if err != nil {
		return nil, err
	}
	files := []imageFile{
		{name: "oci-layout", mode: 0o644, data: []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		{name: "blobs/", mode: 0o755}, {name: "blobs/sha256/", mode: 0o755},
	}
	blob := func(kind string, data []byte) descriptor {
		sum := sha256.Sum256(data)
		digest := hex.EncodeToString(sum[:])
		files = append(files, imageFile{name: "blobs/sha256/" + digest, mode: 0o644, data: data})
		return descriptor{MediaType: "application/vnd.oci.image." + kind, Digest: "sha256:" + digest, Size: len(data)}
	}
	layerBlob := blob("layer.v1.tar", layer)
	config, err := json.Marshal(map[string]any{
		"created": imageTime, "architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{
			"Env": []string{"PATH=/bin:/usr/bin"}, "Entrypoint": i.entrypoint, "Cmd": i.command,
		},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{layerBlob.Digest}},
	})
	if err != nil {
		return nil, err
	}
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
		"config": blob("config.v1+json", config), "layers": []descriptor{layerBlob},
	})
	if err != nil {
		return nil, err
	}
	manifestBlob := blob("manifest.v1+json", manifest)
	// The name of the specification, and the one in which containerd takes a whole reference.
	manifestBlob.Annotations = map[string]string{"org.opencontainers.image.ref.name": i.name, "io.containerd.image.name": i.name}
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "manifests": []descriptor{manifestBlob}})
	if err != nil {
		return nil, err
	}
	return tarOf(append(files, imageFile{name: "index.json", mode: 0o644, data: index}))
}

func tarOf(files []imageFile) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		header := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.data)), ModTime: imageTime, Typeflag: tar.TypeReg}
		switch {
		case strings.HasSuffix(f.name, "/"):
			header.Typeflag = tar.TypeDir
		case f.link != "":
			header.Typeflag, header.Linkname = tar.TypeSymlink, f.link
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
