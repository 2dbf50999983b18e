package extension

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"path"
	"strings"
	"time"

	"kapis.dev/ks-apiserver/pkg/api/extensions/v1alpha1"
)

// Bundle is a JSBundle.
type Bundle struct {
	Name string
	// Fault says why it is not served, "" if it is.
	Fault string

	uid, version, digest string
	extension            string
	created              time.Time
	files                map[string]*File // by link
}

// File is a file of a bundle.
type File struct {
	// Link is its path, and Type its media type.
	Link, Type string

	bundle *Bundle
	raw    []byte
	from   *v1alpha1.Source
	main   bool // the file that the digest of the bundle is of
	// digest is the one that the content must have by its link; "" for any.
	digest string
}

// mediaTypes are those of files of bundles, by extension. A page is none of them.
var mediaTypes = map[string]string{
	".js": "application/javascript", ".mjs": "application/javascript", ".css": "text/css; charset=utf-8", ".json": "application/json",
	".map":  "application/json",
	".wasm": "application/wasm", ".woff": "font/woff", ".woff2": "font/woff2", ".ttf": "font/ttf", ".otf": "font/otf", ".png": "image/png",
	".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp", ".ico": "image/x-icon", ".svg": "image/svg+xml",
}

func (b *Bundle) older(c *Bundle) int {
	return cmp.Or(b.created.Compare(c.created), cmp.Compare(b.Name, c.Name))
}

// typeOf returns the media type of a file: the one that is asked for, if files may have it, or that of its name.
func typeOf(link, asked string) (string, error) {
	if asked == "" {
		return cmp.Or(mediaTypes[strings.ToLower(path.Ext(link))], "application/octet-stream"), nil
	}
	media, _, err := mime.ParseMediaType(asked)
	if err != nil {
		return "", fmt.Errorf("mimeType: %.100q is no media type", asked)
	}
	if strings.HasPrefix(media, "image/") || strings.HasPrefix(media, "font/") || media == "application/octet-stream" ||
		strings.HasSuffix(media, "/javascript") {
		return asked, nil
	}
	for _, known := range mediaTypes {
		if own, _, _ := mime.ParseMediaType(known); own == media {
			return asked, nil
		}
	}
	return "", fmt.Errorf("mimeType: files of bundles are not of %.100q: scripts, styles, JSON, WebAssembly, fonts and images are served",
		media)
}

// newBundle reads a JSBundle. Its error says what is wrong with it.
func newBundle(o *v1alpha1.JSBundle) (*Bundle, error) {
	b := &Bundle{Name: o.Name, uid: string(o.UID), version: o.ResourceVersion, digest: o.Annotations[v1alpha1.AnnotationDigest],
		extension: owner(&o.ObjectMeta), created: o.CreationTimestamp.Time, files: map[string]*File{}}
	if o.Status.State != v1alpha1.StateAvailable {
		b.Fault = fmt.Sprintf("its status.state is %.63q, and not %s", o.Status.State, v1alpha1.StateAvailable)
	}
	if len(o.Spec.Raw) == 0 && o.Spec.RawFrom == nil {
		return nil, errors.New("spec: there is neither raw nor rawFrom")
	}
	err := b.add(cmp.Or(o.Status.Link, DefaultLink(o.Name)), "application/javascript", o.Spec.Raw, o.Spec.RawFrom, true)
	if err != nil {
		return nil, fmt.Errorf("status.link: %w", err)
	}
	if o.Spec.Assets == nil {
		return b, nil
	}
	if s := o.Spec.Assets.Style; s != nil && s.Link != "" {
		if err := b.add(s.Link, "text/css", nil, &s.Source, false); err != nil {
			return nil, fmt.Errorf("spec.assets.style: %w", err)
		}
	}
	for i := range o.Spec.Assets.Files {
		f := &o.Spec.Assets.Files[i]
		if err := b.add(f.Link, f.MIMEType, nil, &f.Source, false); err != nil {
			return nil, fmt.Errorf("spec.assets.files[%d]: %w", i, err)
		}
	}
	return b, nil
}

func (b *Bundle) add(link, media string, raw []byte, from *v1alpha1.Source, main bool) error {
	if err := checkLink(link, b.extension); err != nil {
		return err
	}
	if b.files[link] != nil {
		return fmt.Errorf("two files of the bundle have the link %.200q", link)
	}
	media, err := typeOf(link, media)
	if err != nil {
		return err
	}
	f := &File{Link: link, Type: media, bundle: b, main: main}
	if len(raw) > 0 {
		f.raw = Decoded(raw)
	} else if err := b.checkSource(from); err != nil {
		return err
	} else {
		f.from = from
	}
	b.files[link] = f
	return nil
}

// checkSource returns an error for a source that a bundle may not have. A Secret must be in the namespace of the bundle's extension, since
// anybody may read bundles.
func (b *Bundle) checkSource(s *v1alpha1.Source) error {
	switch {
	case s.ConfigMapKeyRef != nil:
		if r := s.ConfigMapKeyRef; r.Name == "" || r.Namespace == "" || r.Key == "" {
			return errors.New("configMapKeyRef needs a namespace, a name and a key")
		}
	case s.SecretKeyRef != nil:
		r := s.SecretKeyRef
		if r.Name == "" || r.Namespace == "" || r.Key == "" {
			return errors.New("secretKeyRef needs a namespace, a name and a key")
		}
		if b.extension == "" || r.Namespace != "extension-"+b.extension {
			return errors.New("secretKeyRef: a bundle is read by everybody, so its Secret has to be in the namespace of its extension," +
				" extension-<extension>, which the label kubesphere.io/extension-ref names")
		}
	default:
		if _, err := ParseEndpoint(&s.Endpoint); err != nil {
			return err
		}
	}
	return nil
}

func (x *Index) setBundle(raw []byte) error {
	o := &v1alpha1.JSBundle{}
	if err := json.Unmarshal(raw, o); err != nil {
		return fmt.Errorf("read a JSBundle: %w", err)
	}
	b, err := newBundle(o)
	if err != nil {
		return fmt.Errorf("it is not valid: %w", err)
	}
	x.bundles[o.Name] = b
	return nil
}

// File returns the file at a path, nil if there is none.
func (x *Index) File(link string) *File { return x.tables.Load().links[link] }

// Fault says why the file is not served, "" if it is.
func (f *File) Fault() string { return f.bundle.Fault }

// Links returns the paths of a bundle's files.
func Links(o *v1alpha1.JSBundle) []string {
	b, err := newBundle(o)
	if err != nil {
		return nil
	}
	out := make([]string, 0, len(b.files))
	for link := range b.files {
		out = append(out, link)
	}
	return out
}

// Sources returns the backends that files of a bundle are fetched from, by their fields.
func Sources(o *v1alpha1.JSBundle) map[string]*v1alpha1.Endpoint {
	out := map[string]*v1alpha1.Endpoint{}
	add := func(field string, s *v1alpha1.Source) {
		if s != nil && (s.URL != nil && *s.URL != "" || s.Service != nil) {
			out[field] = &s.Endpoint
		}
	}
	if len(o.Spec.Raw) == 0 {
		add("spec.rawFrom", o.Spec.RawFrom)
	}
	if a := o.Spec.Assets; a != nil {
		if a.Style != nil {
			add("spec.assets.style", &a.Style.Source)
		}
		for i := range a.Files {
			add(fmt.Sprintf("spec.assets.files[%d]", i), &a.Files[i].Source)
		}
	}
	return out
}

// References returns the keys of ConfigMaps, and of Secrets, that a bundle shows to everybody.
func References(o *v1alpha1.JSBundle) (maps, secrets []v1alpha1.KeyReference) {
	sources := []*v1alpha1.Source{o.Spec.RawFrom}
	if a := o.Spec.Assets; a != nil {
		if a.Style != nil {
			sources = append(sources, &a.Style.Source)
		}
		for i := range a.Files {
			sources = append(sources, &a.Files[i].Source)
		}
	}
	for _, s := range sources {
		switch {
		case s == nil:
		case s.ConfigMapKeyRef != nil:
			maps = append(maps, *s.ConfigMapKeyRef)
		case s.SecretKeyRef != nil:
			secrets = append(secrets, *s.SecretKeyRef)
		}
	}
	return maps, secrets
}
