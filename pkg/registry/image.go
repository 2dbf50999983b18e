package registry

import (
	"context"
	"errors"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"kapis.dev/ks-apiserver/pkg/status"
)

// Image is what a registry knows of an image.
type Image struct {
	// Registry is its address, Tag the tag or digest.
	Registry, Tag string
	// Manifest and Config are the image's own (OCI image specification 1.1), checked against their
	// digests. Of an image for several platforms they are those for linux/amd64, or where it has none
	// for that, the first for Linux, or the first of all.
	Manifest *v1.Manifest
	Config   *v1.ConfigFile
}

// Image returns an image by its name, such as nginx, registry.example.com/team/app:v1 or app@sha256:..., read with the credentials for
// its registry. Errors are a Status: 404 where it does not exist, 400 otherwise.
func (c *Client) Image(ctx context.Context, image string, creds *Credentials) (*Image, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ref, err := name.ParseReference(image, options(creds.Insecure)...)
	if err != nil || len(image) > maxName || !isRepository(ref.Context()) {
		return nil, status.BadRequestf("%q is not the name of an image, such as nginx:1.29 or registry.example.com/team/app:v1", excerpt(image))
	}
	host := ref.Context().RegistryStr()
	out := &Image{Registry: host, Tag: ref.Identifier()}
	desc, err := remote.Get(ref,
		remote.WithContext(ctx),
		remote.WithAuth(creds.Account(host).authenticator()),
		remote.WithTransport(c.guard(host, creds.Insecure)),
		remote.WithRetryPredicate(func(error) bool { return false }), // the user can try again
		remote.WithRetryStatusCodes(),
	)
	if err == nil {
		err = out.read(desc)
	}
	if err != nil {
		return nil, failure(ctx, host, "read the image "+excerpt(image), err)
	}
	return out, nil
}

// maxName bounds the name of an image or a repository.
const maxName = 512

var errNoImage = errors.New("an index without an image")

func (i *Image) read(desc *remote.Descriptor) error {
	img, err := pick(desc)
	if err != nil {
		return err
	}
	if i.Manifest, err = img.Manifest(); err != nil {
		return err
	}
	i.Config, err = img.ConfigFile()
	return err
}

// pick returns the image that desc is, or one of its images, that for linux/amd64 first.
func pick(desc *remote.Descriptor) (v1.Image, error) {
	if !desc.MediaType.IsIndex() {
		return desc.Image()
	}
	index, err := desc.ImageIndex()
	if err != nil {
		return nil, err
	}
	list, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	best, found := -1, v1.Hash{}
	for _, m := range list.Manifests {
		if liking := like(m); liking > best {
			best, found = liking, m.Digest
		}
	}
	if best < 0 {
		return nil, errNoImage
	}
	return index.Image(found)
}

// like ranks an entry of an index: the highest is chosen, and those below zero never.
func like(m v1.Descriptor) int {
	switch p := m.Platform; {
	case !m.MediaType.IsImage():
		return -1
	case p == nil: // of an older format, without platforms
		return 2
	case p.OS == "unknown": // an attestation about another entry, which no platform runs
		return -1
	case p.OS == "linux" && p.Architecture == "amd64":
		return 3
	case p.OS == "linux":
		return 1
	}
	return 0
}
