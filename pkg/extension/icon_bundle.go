package extension

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/api/extensions/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/store"
)

// Lists of extensions are read with every page of the console, so the image of a large icon is apart: in a ConfigMap of its version, which
// is served below the path of its extension, as files of bundles are.
const (
	// IconNamespace and IconKey are where the image is, in the ConfigMap IconName.
	IconNamespace = "kubesphere-system"
	IconKey       = "icon"
	// consolePrefix is where the console serves the paths of bundles.
	consolePrefix = "/pstatic"
	digestLength  = 64
)

// IconName returns the name of the ConfigMap with the icon of an ExtensionVersion.
func IconName(version string) string { return version + "-icon" }

// IconURL returns the URL of the icon of an extension at the console. It has the digest of the image, so that no other one is served there.
func IconURL(extension string, image []byte, suffix string) string {
	return consolePrefix + iconPath(extension) + Digest(image) + suffix
}

func iconPath(extension string) string { return "/dist/" + extension + "/icon-" }

// newIcon returns the icon of an ExtensionVersion as a bundle with one file; nil where it is none that is served here.
func newIcon(raw []byte) (*Bundle, error) {
	var o struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
		Spec     struct {
			Icon string `json:"icon"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		return nil, fmt.Errorf("read an ExtensionVersion: %w", err)
	}
	of := owner(&o.Metadata)
	link, ok := strings.CutPrefix(o.Spec.Icon, consolePrefix)
	rest, here := strings.CutPrefix(link, iconPath(of))
	if !ok || !here || of == "" || len(rest) <= digestLength {
		return nil, nil //nolint:nilnil // nil is none
	}
	digest, suffix := rest[:digestLength], rest[digestLength:]
	media := mediaTypes[suffix]
	if strings.Trim(digest, "0123456789abcdef") != "" || !strings.HasPrefix(media, "image/") || path.Clean(link) != link {
		return nil, nil //nolint:nilnil // nil is none
	}
	b := &Bundle{Name: o.Metadata.Name, uid: string(o.Metadata.UID), version: o.Metadata.ResourceVersion, digest: digest, extension: of,
		created: o.Metadata.CreationTimestamp.Time}
	b.files = map[string]*File{link: {Link: link, Type: media, bundle: b, main: true, digest: digest,
		from: &v1alpha1.Source{ConfigMapKeyRef: &v1alpha1.KeyReference{Namespace: IconNamespace, Name: IconName(b.Name), Key: IconKey}}}}
	return b, nil
}

// icons is the store.Sink of ExtensionVersions. Most have no icon here, and change nothing.
type icons struct{ *Index }

// Set implements store.Sink.
func (s icons) Set(o *store.Object) {
	b, err := newIcon(o.Raw)
	if err != nil {
		b = nil // what can't be read has none
	}
	s.replace(o.Name, b)
}

// Delete implements store.Sink.
func (s icons) Delete(_, name string) { s.replace(name, nil) }

func (s icons) replace(name string, b *Bundle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b == nil && s.icons[name] == nil {
		return
	}
	if delete(s.icons, name); b != nil {
		s.icons[name] = b
	}
	s.build()
}
