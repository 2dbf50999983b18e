package extensionversion_test

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kapis.dev/ks-apiserver/pkg/controller/controllertest"
	"kapis.dev/ks-apiserver/pkg/controller/extensionversion"
	"kapis.dev/ks-apiserver/pkg/extension"
)

// A large icon is a link in lists, and its image in a ConfigMap that goes with the version; a small one stays where it is.
func TestALargeIconIsALink(t *testing.T) {
	small, large := strings.Repeat("s", 20<<10), strings.Repeat("l", 40<<10)
	for icon, want := range map[string]string{
		"static/small.png": "", "static/large.png": large,
		"data:image/png;base64," + base64.StdEncoding.EncodeToString([]byte(large)): large,
		"data:image/png;base64," + base64.StdEncoding.EncodeToString([]byte(small)): "",
	} {
		v := version()
		c := controllertest.New(t, nil, v)
		raw := packed(t, plain+"icon: '"+icon+"'\n", "static/small.png", small, "static/large.png", large)
		r := extensionversion.New(c.Client, &charts{raw: raw}, time.Now)
		c.Reconcile(r, v.Name)
		c.Has(v)
		m := &corev1.ConfigMap{}
		err := c.Client.Get(t.Context(), client.ObjectKey{Namespace: "kubesphere-system", Name: "shop-1.0.0-icon"}, m)
		if want == "" {
			if err == nil || !strings.HasPrefix(v.Spec.Icon, "data:image/png;base64,") {
				t.Errorf("%.40q: %.40q, %v", icon, v.Spec.Icon, err)
			}
			continue
		}
		if v.Spec.Icon != "/pstatic/dist/shop/icon-"+extension.Digest([]byte(want))+".png" || err != nil || string(m.BinaryData["icon"]) != want ||
			len(m.OwnerReferences) != 1 || m.OwnerReferences[0].UID != v.UID {
			t.Errorf("%.40q: %.120q, %v, %v", icon, v.Spec.Icon, err, m.OwnerReferences)
		}
		if n := c.Written(func() { c.Reconcile(r, v.Name) }); n != 0 {
			t.Errorf("%d writes when it is settled", n)
		}
	}
}
