package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// Push copies images that were built to a registry. Credentials are those of docker: ~/.docker/config.json, DOCKER_CONFIG, helpers.
type Push struct {
	From          string // folder of the images
	Registry, Tag string // names the images there
	Log           io.Writer
}

// Run pushes the image of every program, and returns the digests of the images in the registry.
func (p Push) Run(ctx context.Context) ([]Digest, error) {
	if p.Registry == "" {
		return nil, errors.New("name the registry: --registry registry.example.com/team (make push IMAGE_REGISTRY=...)")
	}
	digests := make([]Digest, 0, len(programs))
	for _, program := range programs {
		ref, err := name.NewTag(p.Registry + "/" + program.name + ":" + p.Tag)
		if err != nil {
			return nil, fmt.Errorf("name the image of %s: %w", program.name, err)
		}
		digest, err := p.push(ctx, filepath.Join(p.From, program.name), ref)
		if err != nil {
			return nil, err
		}
		digests = append(digests, Digest{ref.Name(), digest.String()})
	}
	return digests, nil
}

// push copies what is in an OCI layout.
func (p Push) push(ctx context.Context, folder string, ref name.Tag) (v1.Hash, error) {
	index, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return v1.Hash{}, fmt.Errorf("read the image (make image builds it): %w", err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return v1.Hash{}, fmt.Errorf("read the image: %w", err)
	}
	if len(manifest.Manifests) != 1 {
		return v1.Hash{}, fmt.Errorf("%s has %d images and not one: build it again", folder, len(manifest.Manifests))
	}
	fmt.Fprintf(p.Log, "pushing %s\n", ref)
	built := manifest.Manifests[0]
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	if built.MediaType.IsIndex() {
		all, err := index.ImageIndex(built.Digest)
		if err != nil {
			return v1.Hash{}, fmt.Errorf("read the index of the image: %w", err)
		}
		return built.Digest, explain(ref, remote.WriteIndex(ref, all, options...))
	}
	img, err := index.Image(built.Digest)
	if err != nil {
		return v1.Hash{}, fmt.Errorf("read the image: %w", err)
	}
	return built.Digest, explain(ref, remote.Write(ref, img, options...))
}

// explain returns the error of a push, with advice.
func explain(ref name.Tag, err error) error {
	var answer *transport.Error
	var unreachable *net.OpError
	var unknown *net.DNSError
	var untrusted *tls.CertificateVerificationError
	registry := ref.RegistryStr()
	switch {
	case err == nil:
		return nil
	case errors.As(err, &answer) && (answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden):
		return fmt.Errorf("the registry %s refuses %s: log in with `docker login %s`, or name credentials that may write there in "+
			"~/.docker/config.json: %w", registry, ref, registry, err)
	case errors.As(err, &untrusted):
		return fmt.Errorf("the certificate of the registry %s is not trusted: name its authority in SSL_CERT_FILE: %w", registry, err)
	case errors.As(err, &unreachable), errors.As(err, &unknown):
		return fmt.Errorf("the registry %s can't be reached: %w", registry, err)
	}
	return fmt.Errorf("push %s: %w", ref, err)
}
