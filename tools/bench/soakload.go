package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

// soakPause is between two lists of one client, on the average.
const soakPause = 250 * time.Millisecond

// soakPaths are the paths that the clients of a soak request in turns.
var soakPaths = [...]string{
	podLists + "?limit=10&page=%d", podLists + "?limit=100&page=%d", podLists + "?limit=10&page=%d&sortBy=name&ascending=true",
	podLists + "?limit=10&name=-00%02d", podLists + "?limit=10&page=%d&status=Running", podLists +
		"?limit=10&page=%d&labelSelector=bench/quarter%%3D1",
	podLists + "?limit=10&page=%d&sortBy=.status.podIP", podLists + "?limit=10&page=%d&fieldSelector=spec.schedulerName!%%3Dx",
	podLists + "?limit=20&page=%d&q=checkout", podLists + "?limit=10&page=%d&facets=.status.phase",
	mixLists[1] + "?limit=10&page=%d", mixLists[2] + "?limit=10&page=%d",
}

// list requests lists, one after the other, like a user with a console, over a connection of its own.
func (s *soak) list(ctx context.Context) {
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	defer client.CloseIdleConnections()
	for {
		path := fmt.Sprintf(soakPaths[rand.IntN(len(soakPaths))], 1+rand.IntN(40)) //nolint:gosec // no secret
		start := time.Now()
		err := s.read(ctx, client, path)
		switch took := time.Since(start); {
		case err == nil:
			s.mu.Lock()
			s.took = append(s.took, took)
			s.mu.Unlock()
		case ctx.Err() != nil:
			return
		default:
			s.fault(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(rand.Int64N(int64(2 * soakPause)))): //nolint:gosec // nor this
		}
	}
}

// read requests a list, and drops it.
func (s *soak) read(ctx context.Context, client *http.Client, path string) error {
	resp, err := s.open(ctx, client, path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return fmt.Errorf("GET %s: %w", path, err)
	}
	return nil
}

// soakWatch returns the path of the i-th watcher: events of a namespace or of a selector, whole or of some fields, or a live page, of
// all three kinds.
func soakWatch(i int) string {
	switch i % 8 {
	case 0, 1:
		return "/kapis/resources.kubesphere.io/v1alpha3/namespaces/" + podNamespace(i/8) + "/pods?watch=true"
	case 2, 3:
		return mixLists[0] + "?view=live&limit=10&sortBy=name"
	case 4:
		return mixLists[0] + "?watch=true&labelSelector=bench/quarter%3D1&fields=.metadata.name"
	case 5:
		return mixLists[1] + "?view=live&limit=10"
	case 6:
		return "/kapis/resources.kubesphere.io/v1alpha3/namespaces/" + podNamespace(i/8%4) + "/configmaps?watch=true"
	default:
		return mixLists[2] + "?watch=true&labelSelector=bench/quarter%3D1&fields=.metadata.name,.spec.renewTime"
	}
}

// watch reads a stream of changes. A stream that ends is opened again.
func (s *soak) watch(ctx context.Context, path string) {
	for ctx.Err() == nil {
		s.streams.Add(1)
		if err := s.follow(ctx, path); err != nil && ctx.Err() == nil {
			s.fault(err)
			return
		}
	}
}

func (s *soak) follow(ctx context.Context, path string) error {
	resp, err := s.open(ctx, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	s.opened.Add(1)
	for r := bufio.NewReaderSize(resp.Body, 32<<10); ; {
		line, err := r.ReadSlice('\n')
		for errors.Is(err, bufio.ErrBufferFull) { // the rest of a long line
			_, err = r.ReadSlice('\n')
		}
		if errors.Is(err, io.EOF) {
			return nil // its time is up
		}
		if err != nil {
			return fmt.Errorf("GET %s: %w", path, err)
		}
		if strings.HasPrefix(string(line[:min(len(line), 20)]), `{"type":"ERROR"`) {
			return fmt.Errorf("GET %s: %s", path, line)
		}
		s.events.Add(1)
	}
}

// open sends a request and returns an error for any answer that is no success.
func (s *soak) open(ctx context.Context, client *http.Client, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, nil)
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", path, err)
	}
	req.Header = s.header()
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", path, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 512))
	return nil, fmt.Errorf("GET %s: answered %s: %s", path, resp.Status, text)
}
