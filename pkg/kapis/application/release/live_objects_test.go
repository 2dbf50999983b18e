package release_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
)

// configMap gives a cluster an object of a release, of a size.
func (c *cluster) configMap(name string, size int) {
	c.objects["/api/v1/namespaces/web/configmaps/"+name] = map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": name, "managedFields": []any{map[string]any{"manager": "helm"}}}, "data": map[string]any{"a": strings.Repeat("x", size)}}
}

// live returns the names of the objects that a release is shown with.
func (c *cluster) live() (names []string) {
	c.t.Helper()
	c.asked = nil
	var got v2.ApplicationRelease
	if err := json.Unmarshal([]byte(c.Expect(http.StatusOK, "ann", http.MethodGet, "/namespaces/web/applications/mine", "")), &got); err != nil {
		c.t.Fatal(err)
	}
	for _, o := range got.Status.RealTimeResources {
		var u unstructured.Unstructured
		if err := json.Unmarshal(o.Raw, &u.Object); err != nil || u.GetManagedFields() != nil {
			c.t.Errorf("%.100s %v", o.Raw, err)
		}
		names = append(names, u.GetName())
	}
	return names
}

// X35: what can't be read at this moment is left out: the state of the release is shown all the same.
func TestX35AnObjectThatCanNotBeReadHidesNoRelease(t *testing.T) {
	c := newCluster(t)
	c.configMap("one", 1)
	c.configMap("hidden", 1)
	c.broken = "/api/v1/namespaces/web/configmaps/one"
	if got := c.live(); !slices.Equal(got, []string{"hidden"}) {
		t.Errorf("%q", got)
	}
}

// X35: no more of a release is read than what an answer has room for.
func TestX35ALargeReleaseIsReadWithinBounds(t *testing.T) {
	c := newCluster(t)
	c.configMap("one", 1)
	for i := range 60 {
		c.configMap(fmt.Sprintf("large-%d", i), 1<<20)
	}
	got := c.live()
	if !slices.Equal(got, []string{"one", "large-0", "large-1", "large-2"}) {
		t.Errorf("%q", got)
	}
	if len(c.asked) > 30 {
		t.Errorf("%d objects were read", len(c.asked))
	}
}
