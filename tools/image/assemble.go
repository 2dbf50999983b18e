package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// nobody is the user and the group of the programs. The number has no other name in the image.
const nobody = 65532

// assemble writes the image of a program, and the files that go with it, to the folder of the build:
//
//	NAME/          an OCI layout, of all platforms
//	NAME.tar       for docker load, of the first platform
//	NAME.cdx.json  what is linked into the program
//
// Further platforms have the last two as NAME-OS-ARCHITECTURE.tar and so on.
func (b Build) assemble(ctx context.Context, work string, p program, platforms []v1.Platform) (v1.Hash, error) {
	ref, err := b.reference(p)
	if err != nil {
		return v1.Hash{}, err
	}
	path, err := layout.Write(filepath.Join(work, p.name), empty.Index)
	if err != nil {
		return v1.Hash{}, fmt.Errorf("make the layout: %w", err)
	}
	var index v1.ImageIndex = empty.Index
	var digest v1.Hash
	tagged := layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": b.Tag, "io.containerd.image.name": ref.Name()})
	for i, platform := range platforms {
		file := filepath.Join(binaries(work, platform), p.name)
		img, err := b.image(p, platform, file)
		if err != nil {
			return v1.Hash{}, err
		}
		suffix := ""
		if i > 0 {
			suffix = "-" + platform.OS + "-" + platform.Architecture
		}
		archive := filepath.Join(work, p.name+suffix+".tar")
		if err := tarball.WriteToFile(archive, ref, img); err != nil {
			return v1.Hash{}, fmt.Errorf("write the archive: %w", err)
		}
		if err := os.Rename(archive, filepath.Join(b.Out, filepath.Base(archive))); err != nil {
			return v1.Hash{}, fmt.Errorf("put the archive in its place: %w", err)
		}
		if err := b.describe(ctx, p, filepath.Dir(file), suffix); err != nil {
			return v1.Hash{}, err
		}
		if len(platforms) == 1 {
			if err := path.AppendImage(img, tagged, layout.WithPlatform(platform)); err != nil {
				return v1.Hash{}, fmt.Errorf("write the layout: %w", err)
			}
			if digest, err = img.Digest(); err != nil {
				return v1.Hash{}, fmt.Errorf("compute the digest: %w", err)
			}
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &platform}})
	}
	if len(platforms) > 1 {
		index = mutate.Annotations(index, b.labels(p)).(v1.ImageIndex) //nolint:errcheck // it returns what it is given
		if err := path.AppendIndex(index, tagged); err != nil {
			return v1.Hash{}, fmt.Errorf("write the layout: %w", err)
		}
		if digest, err = index.Digest(); err != nil {
			return v1.Hash{}, fmt.Errorf("compute the digest: %w", err)
		}
	}
	final := filepath.Join(b.Out, p.name)
	if err := os.RemoveAll(final); err != nil {
		return v1.Hash{}, fmt.Errorf("remove the layout of an earlier build: %w", err)
	}
	if err := os.Rename(string(path), final); err != nil {
		return v1.Hash{}, fmt.Errorf("put the layout in its place: %w", err)
	}
	return digest, nil
}

// describe writes the SBOM of a program, which is in a folder.
func (b Build) describe(ctx context.Context, p program, folder, suffix string) error {
	if b.Describe == nil {
		return nil
	}
	if err := b.Describe(ctx, b.Root, folder, b.Version, filepath.Join(folder, p.name)); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(folder, p.name+".cdx.json"), filepath.Join(b.Out, p.name+suffix+".cdx.json")); err != nil {
		return fmt.Errorf("put the description of what is linked in its place: %w", err)
	}
	return nil
}

// image returns the image of a program, which is in a file.
func (b Build) image(p program, platform v1.Platform, file string) (v1.Image, error) {
	base, err := layer(filesystem())
	if err != nil {
		return nil, err
	}
	binary, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the program: %w", err)
	}
	top, err := layer([]entry{{name: p.name, mode: 0o755, content: binary}})
	if err != nil {
		return nil, err
	}
	created, labels := v1.Time{Time: b.Created}, b.labels(p)
	ports := map[string]struct{}{}
	for _, port := range p.ports {
		ports[strconv.Itoa(port)+"/tcp"] = struct{}{}
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err = mutate.ConfigFile(img, &v1.ConfigFile{
		Architecture: platform.Architecture,
		OS:           platform.OS,
		Created:      created,
		RootFS:       v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{}},
		Config: v1.Config{
			User:         fmt.Sprintf("%d:%d", nobody, nobody),
			Entrypoint:   []string{"/" + p.name},
			WorkingDir:   "/",
			ExposedPorts: ports,
			Labels:       labels,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("configure the image: %w", err)
	}
	img, err = mutate.Append(img,
		mutate.Addendum{Layer: base, MediaType: types.OCILayer, History: v1.History{Created: created, CreatedBy: "authorities, a user"}},
		mutate.Addendum{Layer: top, MediaType: types.OCILayer, History: v1.History{Created: created, CreatedBy: p.name + " " + b.Version}})
	if err != nil {
		return nil, fmt.Errorf("put the layers together: %w", err)
	}
	return mutate.Annotations(img, labels).(v1.Image), nil //nolint:errcheck // it returns what it is given
}

// labels returns the labels and annotations of an image, with the keys of the OCI.
func (b Build) labels(p program) map[string]string {
	labels := map[string]string{}
	for key, value := range map[string]string{
		"title":       p.name,
		"description": p.description,
		"licenses":    "Apache-2.0",
		"version":     b.Version,
		"revision":    b.Revision,
		"source":      b.Source,
		"created":     b.Created.Format(time.RFC3339),
	} {
		if value != "" {
			labels["org.opencontainers.image."+key] = value
		}
	}
	return labels
}

// entry is a file of an image, or a folder if it has no content.
type entry struct {
	name    string
	mode    int64
	content []byte
}

// filesystem returns the files that every image has, for any program. It changes with the certificates alone, so that registries and
// nodes store it once.
func filesystem() []entry {
	return []entry{
		{name: "etc/", mode: 0o755},
		{name: "etc/passwd", mode: 0o644, content: fmt.Appendf(nil, "nonroot:x:%d:%d::/:/sbin/nologin\n", nobody, nobody)},
		{name: "etc/group", mode: 0o644, content: fmt.Appendf(nil, "nonroot:x:%d:\n", nobody)},
		{name: "etc/ssl/", mode: 0o755},
		{name: "etc/ssl/certs/", mode: 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, content: certificates()},
	}
}

// layer returns the layer of files, all of which belong to root and are of 1970.
func layer(entries []entry) (v1.Layer, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, e := range entries {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: e.name, Mode: e.mode, Size: int64(len(e.content)), ModTime: time.Unix(0, 0),
			Format: tar.FormatUSTAR}
		if e.content == nil {
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("write %s into a layer: %w", e.name, err)
		}
		if _, err := w.Write(e.content); err != nil {
			return nil, fmt.Errorf("write %s into a layer: %w", e.name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("end a layer: %w", err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.DefaultCompression), tarball.WithCompressedCaching)
	if err != nil {
		return nil, fmt.Errorf("make a layer: %w", err)
	}
	return l, nil
}
