package extension_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"kapis.dev/ks-apiserver/pkg/api/extensions/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/extension"
)

// blocked is a source that answers once goOn is closed.
type blocked struct {
	arrived atomic.Int32
	goOn    chan struct{}
}

func (b *blocked) Key(context.Context, bool, *v1alpha1.KeyReference) ([]byte, error) {
	b.arrived.Add(1)
	<-b.goOn
	return []byte("x"), nil
}

// X14: each file that is read takes up to 16 MiB, and anybody may ask for all of them at once.
func TestX14FewFilesAreReadAtOnce(t *testing.T) {
	const files, atOnce = 20, 4
	for name, test := range map[string]struct {
		inTime bool
		served int
	}{"a slow source": {true, files}, "a source that does not answer": {false, atOnce}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, source := newDist(t), &blocked{goOn: make(chan struct{})}
				d.files = extension.NewFiles(d.Index, source, d.files.Now)
				link := func(i int) string { return fmt.Sprintf("/dist/shop/%d.js", i) }
				var assets []obj
				for i := range files {
					assets = append(assets, obj{"link": link(i), "configMapKeyRef": obj{"namespace": "shop", "name": "web", "key": fmt.Sprint(i)}})
				}
				d.set("jsbundles", "shop", obj{"raw": encoded("in the object"), "assets": obj{"files": assets}}, linked("/dist/shop/index.js"))
				var all, refused sync.WaitGroup
				var served atomic.Int32
				refused.Add(files - test.served)
				for i := range files {
					all.Go(func() {
						switch w := d.get(link(i)); w.Code {
						case http.StatusOK:
							served.Add(1)
						case http.StatusServiceUnavailable:
							refused.Done()
						}
					})
				}
				synctest.Wait()
				if n := source.arrived.Load(); n != atOnce {
					t.Errorf("%d files are read at once", n)
				}
				if w := d.get("/dist/shop/index.js"); w.Code != http.StatusOK {
					t.Errorf("a file that needs no source: %d", w.Code)
				}
				if !test.inTime {
					refused.Wait() // they do not wait for ever
				}
				close(source.goOn)
				all.Wait()
				if n := int(served.Load()); n != test.served {
					t.Errorf("%d files are served", n)
				}
				if w := d.get(link(0)); w.Code != http.StatusOK {
					t.Errorf("afterwards: %d", w.Code)
				}
			})
		})
	}
}

// longest notes the longest write.
type longest struct {
	*httptest.ResponseRecorder
	bytes int
}

func (l *longest) Write(b []byte) (int, error) {
	l.bytes = max(l.bytes, len(b))
	return l.ResponseRecorder.Write(b)
}

// X14: whether a client receives anything is looked at with each write, so that one that is slow, and no more, needs short ones.
func TestX14AFileIsWrittenInPieces(t *testing.T) {
	d, text := newDist(t), strings.Repeat("x", 1<<20+1)
	const link = "/dist/shop/index.js"
	d.set("jsbundles", "shop", obj{"raw": encoded(text)}, linked(link))
	w := &longest{ResponseRecorder: httptest.NewRecorder()}
	if err := d.files.Serve(w, httptest.NewRequest(http.MethodGet, link, nil), d.File(link)); err != nil {
		t.Fatal(err)
	}
	if w.bytes > 32<<10 || w.Body.String() != text {
		t.Errorf("%d bytes are one write, and %d are written", w.bytes, w.Body.Len())
	}
}
