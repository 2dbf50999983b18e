package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

const (
	// changes is how many changes are measured.
	changes = 200
	// changeTimeout bounds the wait until a change shows.
	changeTimeout = 10 * time.Second
	// followPause is between two changes that a stream is to show: longer than a live page's own.
	followPause = 250 * time.Millisecond
	// lookEvery is the pause between two requests, and so the precision.
	lookEvery = 250 * time.Microsecond
)

// events measures how long after a change in the cluster a GET at the product shows it. The change exists from the moment
// that kube-apiserver has answered the write or has sent the event to an ordinary watcher, whichever is first seen here.
func events(ctx context.Context, c client, kube kubernetes.Interface) ([]figure, error) {
	pods := kube.CoreV1().Pods(podNamespace(11))
	name := podName(11)
	w, err := pods.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		return nil, fmt.Errorf("watch pod %s: %w", name, err)
	}
	defer w.Stop()
	path := fmt.Sprintf("/kapis/resources.kubesphere.io/v1alpha3/namespaces/%s/pods/%s", podNamespace(11), name)
	var took []time.Duration
	for i := range changes {
		value := strconv.FormatInt(time.Now().UnixNano(), 36) + "-" + strconv.Itoa(i)
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, touchLabel, value)
		watched := make(chan time.Time, 1)
		go func() { watched <- firstEvent(w, value) }()
		if _, err := pods.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return nil, fmt.Errorf("change pod %s: %w", name, err)
		}
		exists := time.Now()
		seen, err := c.whenShown(ctx, path, []byte(value))
		if err != nil {
			return nil, err
		}
		select {
		case at := <-watched:
			if at.IsZero() {
				return nil, errors.New("the watch of kube-apiserver ended")
			}
			if at.Before(exists) {
				exists = at
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		took = append(took, max(seen.Sub(exists), 0))
	}
	slices.Sort(took)
	at := func(q float64) float64 { return micros(quantile(took, q)) / 1000 }
	return []figure{
		{name: "event-to-readable-p50", value: at(0.5), unit: "ms"},
		{name: "event-to-readable-p99", value: at(0.99), unit: "ms", goal: "<= 20 ms"},
	}, nil
}

// firstEvent returns when the watch sends the value; the zero time if it ends before.
func firstEvent(w watch.Interface, value string) time.Time {
	for e := range w.ResultChan() {
		if p, ok := e.Object.(*corev1.Pod); ok && p.Labels[touchLabel] == value {
			return time.Now()
		}
	}
	return time.Time{}
}

// whenShown asks until an answer has the value, and returns when that was.
func (c client) whenShown(ctx context.Context, path string, value []byte) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	for {
		resp, err := c.get(ctx, path)
		switch {
		case ctx.Err() != nil:
			return time.Time{}, fmt.Errorf("a change did not show at GET %s within %v", path, changeTimeout)
		case err != nil:
			return time.Time{}, err
		case bytes.Contains(resp.Body, value):
			return time.Now(), nil
		}
		time.Sleep(lookEvery)
	}
}

// watched measures how long after a change in the cluster a watch and a live page of the product send it.
func watched(ctx context.Context, c client, kube kubernetes.Interface) ([]figure, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	name := podName(12)
	selected := "fieldSelector=" + url.QueryEscape("metadata.name="+name)
	var figures []figure
	for _, form := range [...]struct{ name, query string }{
		{"event-to-watcher", "watch=true&resourceVersion=&" + selected}, {"event-to-live-page", "view=live&limit=10&" + selected},
	} {
		lines, err := c.stream(ctx, podLists+"?"+form.query)
		if err != nil {
			return nil, err
		}
		took, err := follow(ctx, kube, lines)
		if err != nil {
			return nil, err
		}
		slices.Sort(took)
		for _, q := range [...]int{50, 99} {
			figures = append(figures, figure{
				name: fmt.Sprintf("%s-p%d", form.name, q), value: micros(quantile(took, float64(q)/100)) / 1000, unit: "ms", goal: "<= 100 ms",
			})
		}
	}
	return figures, nil
}

// streamed is a line of a stream, and when it came.
type streamed struct {
	text string
	at   time.Time
}

// stream opens a stream of the product and returns its lines. It ends with ctx.
func (c client) stream(ctx context.Context, path string) (<-chan streamed, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL+path, nil)
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", path, err)
	}
	req.Header = c.header()
	resp, err := (&http.Client{Transport: &http.Transport{}}).Do(req) //nolint:bodyclose // the reader of the lines closes it
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", path, err)
	}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 512))
		_ = resp.Body.Close()
		return nil, fmt.Errorf("GET %s: answered %s: %s", path, resp.Status, text)
	}
	lines := make(chan streamed, 64)
	go func() {
		defer resp.Body.Close()
		defer close(lines)
		for r := bufio.NewReaderSize(resp.Body, 64<<10); ; {
			text, err := r.ReadString('\n')
			if err != nil {
				return
			}
			select {
			case lines <- streamed{text, time.Now()}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return lines, nil
}

// follow changes a pod over and over, and returns how long each change took to show in the stream.
func follow(ctx context.Context, kube kubernetes.Interface, lines <-chan streamed) ([]time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	pods := kube.CoreV1().Pods(podNamespace(12))
	var took []time.Duration
	for i := range changes / 4 {
		select { // a live page is sent only so often: this measures how soon the first change shows
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(followPause):
		}
		value := strconv.FormatInt(time.Now().UnixNano(), 36) + "-" + strconv.Itoa(i)
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, touchLabel, value)
		if _, err := pods.Patch(ctx, podName(12), types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return nil, fmt.Errorf("change pod %s: %w", podName(12), err)
		}
		exists := time.Now()
		for seen := false; !seen; {
			select {
			case <-ctx.Done():
				return nil, fmt.Errorf("a change did not show in a stream: %w", ctx.Err())
			case line, ok := <-lines:
				if !ok {
					return nil, errors.New("a stream of the product ended")
				}
				if seen = strings.Contains(line.text, value); seen {
					took = append(took, max(line.at.Sub(exists), 0))
				}
			}
		}
	}
	return took, nil
}
