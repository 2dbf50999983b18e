package peer

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/link"
)

const (
	// pathStates answers with what is linked to a replica.
	pathStates = "/states"
	// wait is how long a replica may wait for news before it answers, and askTimeout bounds the answer.
	wait, askTimeout = 10 * time.Second, 20 * time.Second
	// maxStates bounds what is said of links, in bytes: more than cluster.Members says at once, however its texts are escaped.
	maxStates = 256 << 20

	// headerRefused says why a replica has not passed a request on; members can't send it.
	headerRefused = "X-Kapis-Replica-Refused"
	// headerStream says that a request counts as a stream.
	headerStream = "X-Kapis-Replica-Stream"
)

// question asks for what is linked to a replica.
type question struct {
	After uint64 `json:"after"`
	// Bound are the versions of the lists that the asker has, by the UID of the Cluster.
	Bound map[string]uint64 `json:"bound,omitempty"`
}

// answer is what is linked to a replica. The version 0 says that there is more, which the next question gets.
type answer struct {
	Replica string          `json:"replica"`
	Version uint64          `json:"version"`
	Members []cluster.State `json:"members"`
}

// why a replica does not pass a request on.
var refusals = map[string]error{
	"unlinked": cluster.ErrUnlinked,
	"busy":     cluster.ErrBusy,
	"spared":   cluster.ErrSpared,
	"broken":   errors.New("the request failed on its way from another replica of this hub to the member"),
}

// unverified is for connections whose other end proves itself within the link.
func unverified() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true} //nolint:gosec // see above
}

// ask asks a replica what is linked to it. Known is what it has said before.
func ask(ctx context.Context, l *link.Link, after uint64, known map[string]cluster.State) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	q := question{After: after, Bound: map[string]uint64{}}
	for uid := range known {
		q.Bound[uid] = known[uid].Version
	}
	raw, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+link.HubName()+pathStates, bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	resp, err := l.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %d", resp.StatusCode)
	}
	out := &answer{}
	return out, json.NewDecoder(io.LimitReader(resp.Body, maxStates)).Decode(out)
}

// merged returns what is linked to a replica, with the lists that it left out.
func merged(known map[string]cluster.State, said []cluster.State) map[string]cluster.State {
	out := make(map[string]cluster.State, len(said))
	for i := range said {
		s := said[i]
		if old, has := known[s.UID]; has && old.Version == s.Version {
			s.Bound, s.Names = old.Bound, old.Names
		}
		out[s.UID] = s
	}
	return out
}

// sender returns the transport of requests to members through the replica at the other end.
func sender(l *link.Link) func(uid string, r *http.Request) (*http.Response, error) {
	return func(uid string, r *http.Request) (*http.Response, error) {
		out := r.Clone(r.Context())
		out.Host = link.MemberName(uid)
		out.URL = &url.URL{Scheme: "https", Host: out.Host, Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery}
		delete(out.Header, headerStream)
		if cluster.IsStream(r.Context()) {
			out.Header[headerStream] = []string{"1"}
		}
		send := l.RoundTrip
		if r.Header.Get("Upgrade") != "" {
			send = l.Upgrading().RoundTrip
		}
		resp, err := send(out)
		if err != nil {
			return nil, err
		}
		if why := resp.Header[headerRefused]; len(why) == 1 {
			_ = resp.Body.Close()
			if err := refusals[why[0]]; err != nil {
				return nil, err
			}
			return nil, refusals["broken"]
		}
		return resp, nil
	}
}
