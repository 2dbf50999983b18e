package extension_test

import (
	"net/http"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/extension"
)

// version says that an ExtensionVersion has an icon.
func (f *fed) version(name, of, icon string) {
	f.set("extensionversions", name, obj{"icon": icon, "labels": obj{"kubesphere.io/extension-ref": of}}, nil)
}

// The icon of a version is served from its ConfigMap at the link that names its digest, for ever, and goes with the version.
func TestALargeIconIsServed(t *testing.T) {
	d := newDist(t)
	const image = "<svg/>"
	url := extension.IconURL("shop", []byte(image), ".svg")
	link := strings.TrimPrefix(url, "/pstatic")
	d.put("configmap kubesphere-system/shop-1.0.0-icon/icon", image)
	d.version("shop-1.0.0", "shop", url)
	w := d.get(link)
	if w.Code != http.StatusOK || w.Body.String() != image || w.Header().Get("Content-Type") != "image/svg+xml" ||
		!strings.Contains(w.Header().Get("Cache-Control"), "immutable") || !strings.Contains(w.Header().Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("%d %s %v", w.Code, w.Body, w.Header())
	}
	d.version("shop-1.1.0", "shop", url) // another version with the same icon
	d.put("configmap kubesphere-system/shop-1.1.0-icon/icon", image)
	d.delete("extensionversions", "shop-1.0.0")
	if w := d.get(link); w.Code != http.StatusOK || w.Body.String() != image {
		t.Errorf("of the other version: %d %s", w.Code, w.Body)
	}
	d.delete("extensionversions", "shop-1.1.0")
	if w := d.get(link); w.Code != http.StatusNotFound {
		t.Errorf("of no version: %d", w.Code)
	}
}

// X13: a version's icon shows no other content than the image that its link names, and nothing at other paths.
func TestX13AnIconShowsNothingElse(t *testing.T) {
	d := newDist(t)
	digest := extension.Digest([]byte("image"))
	d.put("configmap kubesphere-system/shop-1.0.0-icon/icon", "a secret")
	d.version("shop-1.0.0", "shop", "/pstatic/dist/shop/icon-"+digest+".png")
	if w := d.get("/dist/shop/icon-" + digest + ".png"); w.Code != http.StatusServiceUnavailable || strings.Contains(w.Body.String(), "secret") {
		t.Errorf("of other content: %d %s", w.Code, w.Body)
	}
	for _, c := range []struct{ of, icon string }{
		{"shop", "/dist/shop/icon-" + digest + ".png"},
		{"shop", "/pstatic/dist/other/icon-" + digest + ".png"},
		{"", "/pstatic/dist//icon-" + digest + ".png"},
		{"..", "/pstatic/dist/../icon-" + digest + ".png"},
		{"shop", "/pstatic/dist/shop/icon-" + digest + ".html"},
		{"shop", "/pstatic/dist/shop/icon-" + digest + ".js"},
		{"shop", "/pstatic/dist/shop/icon-" + digest + "/x.png"},
		{"shop", "/pstatic/dist/shop/icon-" + digest},
		{"shop", "/pstatic/dist/shop/icon-" + strings.ToUpper(digest) + ".png"},
		{"shop", "/pstatic/dist/shop/icon-" + digest[1:] + ".png"},
		{"shop", "/pstatic/dist/shop/icon-"},
		{"shop", "data:image/png;base64,AA=="},
		{"shop", "https://shop.example.com/icon.png"},
		{"shop", ""},
	} {
		d.version("shop-2.0.0", c.of, c.icon)
		if link := strings.TrimPrefix(c.icon, "/pstatic"); strings.HasPrefix(link, "/") && link != "/dist/shop/icon-"+digest+".png" && d.File(link) != nil {
			t.Errorf("%q of %q is served", c.icon, c.of)
		}
	}
	if d.File("/dist/shop/icon-"+digest+".png") == nil {
		t.Error("the icon of the other version is gone")
	}
	reads := d.reads
	if d.get("/dist/shop/icon-" + extension.Digest([]byte("guess")) + ".png"); d.reads != reads {
		t.Error("an icon that there is not is looked for")
	}
}
