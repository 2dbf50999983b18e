package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"kapis.dev/ks-apiserver/tools/stack"
)

const (
	extensionGroup  = "bench.example.com"
	extensionThings = "/kapis/" + extensionGroup + "/v1/things"
	extensionBundle = "/dist/bench/index.js"
	// manyServices are the APIServices beside the one that is asked.
	manyServices = 199
	// bundleBytes is how much the bundle has.
	bundleBytes = 500 << 10
	// hungRequests is how many requests of one user wait for a backend that does not answer: as many as one may have.
	hungRequests = 64
)

// newReverseProxy is the plain way to pass requests on: net/http/httputil's, as it comes.
func newReverseProxy(address string) http.Handler {
	return &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(&url.URL{Scheme: "http", Host: address}) },
		Transport: &http.Transport{MaxIdleConnsPerHost: 32}}
}

// measureExtensions measures extensions alone.
func (b *bench) measureExtensions(ctx context.Context) error {
	b.measured("extensions", func() ([]figure, error) { return b.extensions(ctx) })
	if err := b.measureInstallations(ctx); err != nil {
		return err
	}
	return ctx.Err()
}

// extensions measures a request that is passed on to a backend, next to a plain reverse proxy, with one APIService and with 200; and a bundle, next
// to the bare handler.
func (b *bench) extensions(ctx context.Context) (figures []figure, err error) {
	objects, err := b.extensionObjects()
	if err != nil {
		return nil, err
	}
	backend, err := startYardstick(ctx, []answer{{URI: extensionThings, Header: http.Header{"Content-Type": {"application/json"}},
		Body: []byte(`{"items":["` + strings.Repeat("x", 1000) + `"]}`)}}, "bare")
	if err != nil {
		return nil, err
	}
	defer backend.stop()
	plain, err := startYardstick(ctx, nil, "proxy", backend.addr)
	if err != nil {
		return nil, err
	}
	defer plain.stop()
	defer func() { err = errors.Join(err, objects.remove(context.WithoutCancel(ctx))) }()
	for _, count := range []int{1, 1 + manyServices} {
		if err := objects.services(ctx, count, "http://"+backend.addr); err != nil {
			return figures, err
		}
		if err := b.served(ctx, extensionThings); err != nil {
			return figures, err
		}
		ours, err := b.client.at(extensionThings, http.StatusOK)
		if err != nil {
			return figures, err
		}
		more, err := contest{
			name: fmt.Sprintf("passed-on-of-%d", count), conns: connections, product: side{target: ours, count: usual().passed},
			yardstick: &side{target: ours.on(plain), count: usual().passed}, beside: "reverse-proxy", measures: []measure{cpu("ratio <= 1.50")},
		}.run(ctx, b.rounds)
		figures = append(figures, more...)
		if err != nil {
			return figures, err
		}
	}
	more, err := b.hung(ctx, objects)
	if figures = append(figures, more...); err != nil {
		return figures, err
	}
	more, err = b.bundle(ctx, objects)
	return append(figures, more...), err
}

// hung measures requests for one backend while another one takes as many as a user may have, and answers none; next to those where none does.
func (b *bench) hung(ctx context.Context, objects extensionObjects) ([]figure, error) {
	const hangs = "bench-hangs.example.com"
	silent, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	defer func() { _ = silent.Close() }() // nobody accepts: the kernel connects, and no answer comes
	object := extensionObject("APIService", hangs, map[string]any{"group": hangs, "version": "v1", "url": "http://" + silent.Addr().String()})
	if _, err := objects.apiServices.Create(ctx, object, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("make an APIService: %w", err)
	}
	ours, err := b.client.at(extensionThings, http.StatusOK)
	if err != nil {
		return nil, err
	}
	waiting := func(ctx context.Context) (func() error, error) {
		ctx, cancel := context.WithCancel(ctx)
		var all sync.WaitGroup
		for range hungRequests {
			all.Go(func() { _, _ = b.client.get(ctx, "/kapis/"+hangs+"/v1/things") }) // ended by cancel
		}
		return func() error { cancel(); all.Wait(); return nil }, nil
	}
	late := latency(99)
	late.beyond = "<= 1000 us"
	return contest{name: "others-while-one-hangs", conns: connections, product: side{target: ours, count: usual().passed, during: waiting},
		yardstick: &side{target: ours, count: usual().passed}, beside: "none-hangs", measures: []measure{late}}.run(ctx, b.rounds)
}

// bundle measures the file of a JSBundle, compressed, and the answer that it has not changed.
func (b *bench) bundle(ctx context.Context, objects extensionObjects) (figures []figure, err error) {
	if err := objects.bundle(ctx); err != nil {
		return nil, err
	}
	if err := b.served(ctx, extensionBundle); err != nil {
		return nil, err
	}
	packed, err := b.client.get(ctx, extensionBundle, "Accept-Encoding", "gzip")
	if err != nil {
		return nil, err
	}
	tag := packed.Header.Get("ETag")
	same, err := b.client.Do(ctx, stack.Request{Path: extensionBundle, Header: b.client.header("Accept-Encoding", "gzip", "If-None-Match", tag)})
	if err != nil {
		return nil, err
	}
	for _, c := range []struct {
		name   string
		answer answer
		header []string
		status int
	}{
		{"bundle-gzip", answer{URI: extensionBundle, Header: packed.Header, Body: packed.Body}, []string{"Accept-Encoding", "gzip"}, http.StatusOK},
		{"bundle-304", answer{URI: extensionBundle, Status: same.Status, Header: same.Header}, []string{"Accept-Encoding", "gzip", "If-None-Match", tag},
			http.StatusNotModified},
	} {
		bare, err := startYardstick(ctx, []answer{c.answer}, "bare")
		if err != nil {
			return figures, err
		}
		ours, err := b.client.at(extensionBundle, c.status, c.header...)
		if err != nil {
			bare.stop()
			return figures, err
		}
		more, err := contest{
			name: c.name, conns: connections, product: side{target: ours, count: usual().large},
			yardstick: &side{target: ours.on(bare), count: usual().large}, beside: "bare-handler", measures: []measure{cpu("ratio <= 1.15")},
		}.run(ctx, b.rounds)
		bare.stop()
		figures = append(figures, more...)
		if err != nil {
			return figures, err
		}
	}
	return figures, nil
}

// served waits until a path is answered with 200.
func (b *bench) served(ctx context.Context, path string) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, pollEvery, clusterTimeout, true, func(ctx context.Context) (bool, error) {
		_, last = b.client.get(ctx, path)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait until %s is served: %w (%w)", path, err, last)
	}
	return nil
}

// extensionObjects makes and removes the objects of this benchmark.
type extensionObjects struct{ apiServices, jsBundles dynamic.ResourceInterface }

func (b *bench) extensionObjects() (extensionObjects, error) {
	client, err := dynamic.NewForConfig(b.restConfig)
	if err != nil {
		return extensionObjects{}, fmt.Errorf("make a client for objects of extensions: %w", err)
	}
	of := schema.GroupVersion{Group: "extensions.kubesphere.io", Version: "v1alpha1"}
	return extensionObjects{client.Resource(of.WithResource("apiservices")), client.Resource(of.WithResource("jsbundles"))}, nil
}

func extensionObject(kind, name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "extensions.kubesphere.io/v1alpha1", "kind": kind,
		"metadata": map[string]any{"name": name, "labels": map[string]any{"bench": "extensions"}}, "spec": spec}}
}

// services makes APIServices up to a number: the first is that of extensionGroup.
func (o extensionObjects) services(ctx context.Context, count int, url string) error {
	for i := range count {
		group := extensionGroup
		if i > 0 {
			group = fmt.Sprintf("bench-%d.example.com", i)
		}
		object := extensionObject("APIService", group, map[string]any{"group": group, "version": "v1", "url": url})
		if _, err := o.apiServices.Create(ctx, object, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("make an APIService: %w", err)
		}
	}
	return nil
}

// bundle makes a JSBundle with text as scripts have it.
func (o extensionObjects) bundle(ctx context.Context) error {
	var text strings.Builder
	for i := 0; text.Len() < bundleBytes; i++ {
		fmt.Fprintf(&text, "export const value%d = (a, b) => a * %d + b.property%d;\n", i, i*7919, i%97)
	}
	object := extensionObject("JSBundle", "bench", map[string]any{})
	if err := unstructured.SetNestedField(object.Object, base64.StdEncoding.EncodeToString([]byte(text.String())), "spec", "raw"); err != nil {
		return err
	}
	_, err := o.jsBundles.Create(ctx, object, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// remove deletes all of them.
func (o extensionObjects) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	all := metav1.ListOptions{LabelSelector: "bench=extensions"}
	return errors.Join(o.apiServices.DeleteCollection(ctx, metav1.DeleteOptions{}, all), o.jsBundles.DeleteCollection(ctx, metav1.DeleteOptions{}, all))
}
