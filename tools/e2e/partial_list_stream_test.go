package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// streams opens every kind of stream of the pods of the whole cluster, each with what has been read of it.
func (p *parted) streams(t *testing.T) (read map[string]<-chan string, ended map[string]<-chan struct{}) {
	t.Helper()
	read, ended = map[string]<-chan string{}, map[string]<-chan struct{}{}
	for _, path := range []string{
		kapis + "/pods?watch=true", "/kapi/v1/pods?watch=true", "/kapi/v1/watch/pods", "/kapi/v1/pods?watch=true&labelSelector=parts%3Dtrue",
		kapis + "/pods?view=live&limit=50", "/kapi/v1/pods?view=live&limit=50&sortBy=name",
	} {
		for _, accept := range []string{"application/json", "text/event-stream"} {
			name := path + " as " + accept
			read[name], ended[name] = p.user.lines(t, path, "Accept: "+accept)
		}
	}
	return read, ended
}

func TestPartsOfStreamsHaveTheCallersEventsOnly(t *testing.T) { // S2, U19
	proves(t, "S2")
	p := newParted(t)
	before := p.user.list(t, "/kapi/v1/pods").Metadata.ResourceVersion
	read, _ := p.streams(t)
	// What is not for the viewer comes first, so that it would have been seen when his own is.
	for _, c := range []struct{ ns, name string }{{p.c, "foreign-new"}, {p.a, "own-new"}} {
		p.pod(t, c.ns, c.name)
		if _, err := p.kube.CoreV1().Pods(c.ns).Patch(t.Context(), c.name, "application/merge-patch+json", []byte(`{"metadata":{"labels":{"changed":"yes"}}}`),
			metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		p.remove(c.ns, c.name)
	}
	p.pod(t, p.c, "foreign-last")
	p.pod(t, p.b, "own-last")
	for name, lines := range read {
		until(t, name, lines, func(l string) bool {
			p.clean(t, name, l)
			return strings.Contains(l, `"name":"own-last"`)
		})
	}
	t.Run("behind the version of a list come the changes after it, once", func(t *testing.T) {
		lines, _ := p.user.lines(t, "/kapi/v1/pods?watch=true&resourceVersion="+before)
		var got []string
		until(t, "the changes", lines, func(l string) bool {
			p.clean(t, "the watch", l)
			e := decode[struct {
				Type   string
				Object metav1.PartialObjectMetadata
			}](t, l)
			got = append(got, e.Type+" "+e.Object.Name)
			return e.Object.Name == "own-last"
		})
		if want := []string{"ADDED own-new", "MODIFIED own-new", "DELETED own-new", "ADDED own-last"}; !slices.Equal(slices.Compact(got), want) {
			t.Errorf("%v, want %v", got, want)
		}
	})
}

func TestPartsOfStreamsEndWhenTheyAreOtherParts(t *testing.T) { // S2, S53
	proves(t, "S2")
	p := newParted(t)
	mine := append(slices.Clone(p.pods[p.a]), p.pods[p.b]...)
	for _, c := range []struct {
		name   string
		change func()
		want   []string
	}{
		{"a right is added", func() { p.bind(t, p.c) }, append(slices.Clone(mine), p.pods[p.c]...)},
		{"a right is withdrawn", func() {
			admin(t).must(t, http.StatusOK, http.MethodDelete, iamAPI+"/namespaces/"+p.b+"/rolebindings/"+p.bindingB, nil)
		}, append(slices.Clone(p.pods[p.a]), p.pods[p.c]...)},
	} {
		t.Run(c.name, func(t *testing.T) {
			read, ended := p.streams(t)
			for name, lines := range read {
				until(t, name+" begins", lines, func(l string) bool { return strings.Contains(l, `"own-a-0"`) })
			}
			c.change()
			late := after(t, revocation)
			for _, path := range clusterWide[:2] {
				t.Logf("%s shows it after %v", path, within(t, revocation, "the next list shows it", p.user.shows(path, c.want)))
			}
			for name, end := range ended {
				if !endsBy(end, late) {
					t.Fatalf("%s goes on %v later", name, revocation)
				}
				p.gone(t, name, read[name])
			}
		})
	}
}

// gone reads what is left of a stream that has ended: a watch says at last that its client must list again.
func (p *parted) gone(t *testing.T, name string, lines <-chan string) {
	t.Helper()
	last := ""
	for len(lines) > 0 {
		if l := <-lines; l != "" {
			last = l
		}
	}
	if !strings.Contains(name, "view=live") && !strings.Contains(last, `"code":410`) {
		t.Errorf("%s ends with %s", name, clip(last))
	}
}

// An informer of somebody who sees a part holds that part, whatever becomes of it, and does not ask again and
// again (U19).
func TestPartsAreFollowedByInformersOfClientGo(t *testing.T) {
	p := newParted(t)
	var asked atomic.Int64
	config := &rest.Config{
		Host: product.URL, BearerToken: p.user.token, APIPath: "/kapi",
		ContentConfig: rest.ContentConfig{GroupVersion: &corev1.SchemeGroupVersion, NegotiatedSerializer: scheme.Codecs.WithoutConversion()},
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return tripper(func(r *http.Request) (*http.Response, error) { asked.Add(1); return next.RoundTrip(r) })
	})
	client, err := rest.RESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	i := cache.NewSharedInformer(cache.NewListWatchFromClient(client, "pods", metav1.NamespaceAll, fields.Everything()), &corev1.Pod{}, 0)
	go i.Run(t.Context().Done())
	has := func(namespaces ...string) {
		t.Helper()
		eventually(t, fmt.Sprintf("the informer has the pods of %v", namespaces), func(context.Context) error {
			var want []string
			for _, ns := range namespaces {
				want = append(want, p.pods[ns]...)
			}
			got := i.GetStore().ListKeys()
			if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
				return fmt.Errorf("it has %v", got)
			}
			return nil
		})
	}
	has(p.a, p.b)
	p.pod(t, p.c, "foreign-new")
	p.pod(t, p.b, "own-new")
	has(p.a, p.b)
	if n := asked.Load(); n > 3 {
		t.Errorf("the informer asked %d times", n)
	}
	p.bind(t, p.c)
	has(p.a, p.b, p.c)
	admin(t).must(t, http.StatusOK, http.MethodDelete, iamAPI+"/namespaces/"+p.b+"/rolebindings/"+p.bindingB, nil)
	has(p.a, p.c)
}

type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
