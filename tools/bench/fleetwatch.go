package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// watchedEvents is how many events of a watch are timed.
const watchedEvents = 500

// watched measures the way of events through the hub, next to their way without it, and to that through a bare reverse proxy over HTTP/2:
// what is late there, too, is the machine's.
func (x *fleetHub) watched(ctx context.Context) error {
	const path = "/api/v1/pods?watch=true"
	bare, done, err := x.bareWatch(ctx)
	if err != nil {
		return err
	}
	defer done()
	took := map[string][]float64{}
	for _, way := range []struct{ name, at string }{{"ours", x.hub.URL + "/clusters/" + memberName(0)}, {"bare", "http://" + bare},
		{"direct", "http://" + x.address}} {
		if took[way.name], err = x.events(ctx, way.at+path); err != nil {
			return err
		}
	}
	for _, percent := range []float64{0.5, 0.99} {
		f := figure{name: fmt.Sprintf("watch-event-p%.0f", percent*100), value: quantile(took["ours"], percent), unit: "ms",
			yardstick: "the-member", base: quantile(took["direct"], percent)}
		if percent > 0.5 {
			f.goal = "<= 5 ms"
		}
		x.add(f, figure{name: fmt.Sprintf("watch-event-by-bare-proxy-p%.0f", percent*100), value: quantile(took["bare"], percent), unit: "ms",
			yardstick: "the-member", base: f.base})
	}
	return nil
}

// bareWatch starts a bare reverse proxy over HTTP/2 to what answers as the first member does, and returns its address.
func (x *fleetHub) bareWatch(ctx context.Context) (address string, done func(), err error) {
	config, err := selfSigned()
	if err != nil {
		return "", nil, err
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		return "", nil, fmt.Errorf("listen: %w", err)
	}
	member := &http.Server{Handler: x.members[0], ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = member.Serve(l) }() // until it is closed
	proxy, err := startYardstick(ctx, nil, "http2-proxy", l.Addr().String())
	if err != nil {
		_ = member.Close()
		return "", nil, err
	}
	return proxy.addr, func() { proxy.stop(); _ = member.Close() }, nil
}

// events returns how long events of a watch take to arrive, in milliseconds, sorted.
func (x *fleetHub) events(ctx context.Context, address string) (took []float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, fleetTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("make a request: %w", err)
	}
	req.Header = x.hub.header()
	t := &http.Transport{}
	defer t.CloseIdleConnections()
	resp, err := (&http.Client{Transport: t}).Do(req)
	if err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	for s := bufio.NewScanner(resp.Body); len(took) < watchedEvents && s.Scan(); {
		var e struct{ Object struct{ At string } }
		if err := json.Unmarshal(s.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("an event: %w: %.200s", err, s.Text())
		}
		at, err := strconv.ParseInt(e.Object.At, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("an event: %w", err)
		}
		took = append(took, float64(time.Now().UnixNano()-at)/1e6)
	}
	if len(took) < watchedEvents {
		return nil, fmt.Errorf("%d events have come of %d", len(took), watchedEvents)
	}
	slices.Sort(took)
	return took, nil
}
